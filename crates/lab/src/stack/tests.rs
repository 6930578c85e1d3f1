use super::*;

#[test]
fn of_single_paths_the_fastest_counts() {
    let row = |variant: &str, point, time| Row {
        variant: variant.to_owned(),
        point,
        transfer_time_s: Some(time),
        ..Row::default()
    };
    let failed = Row { failure: "gave up".to_owned(), ..row("quinn-path-0", 1, 0.1) };
    let rows = [
        row("quinn-path-0", 0, 5.0),
        row("quinn-path-1", 0, 4.0),
        failed,
        row("quinn-path-1", 1, 6.0),
        row("noq", 0, 3.0),
        row("quic-path-1", 0, 8.0),
    ];
    let told: Vec<_> = best(&rows)
        .into_iter()
        .map(|((stack, point, _), row)| (stack, point, row.transfer_time_s.unwrap()))
        .collect();
    let expected = [
        ("anabranch-best-path", 0, 8.0),
        ("noq", 0, 3.0),
        ("quinn-best-path", 0, 4.0),
        ("quinn-best-path", 1, 6.0),
    ];
    assert_eq!(told, expected.map(|(stack, point, time)| (stack.to_owned(), point, time)));
}

#[test]
fn linux_variants_are_stacks_of_their_own() {
    assert_eq!(of("linux-mptcp-cubic"), ("linux-mptcp-cubic".to_owned(), false));
    assert_eq!(of("linux-tcp-bbr-path-2"), ("linux-tcp-bbr-best-path".to_owned(), true));
}

#[test]
fn each_stack_stands_somewhere_in_each_experiment() {
    let row = |experiment: &str, variant: &str, point, time, bound_s| Row {
        experiment: experiment.to_owned(),
        variant: variant.to_owned(),
        point,
        transfer_time_s: Some(time),
        bound_s,
        ..Row::default()
    };
    let bound = Some(2.0);
    let rows = [
        row("large", "noq", 0, 3.0, bound),
        row("small", "noq", 0, 9.0, bound),
        row("large", "noq", 1, 8.0, bound),
        row("large", "noq", 2, 4.0, bound),
        row("large", "quinn-path-0", 0, 5.0, bound),
        row("large", "quinn-path-1", 0, 4.0, bound),
        row("lossy", "noq", 0, 9.0, None),
        Row { failure: "gave up".to_owned(), ..row("large", "noq", 3, 1.0, bound) },
        // The stack has a successful run on another path.
        Row { failure: "gave up".to_owned(), ..row("large", "quinn-path-2", 0, 1.0, bound) },
        Row { failure: "gave up".to_owned(), ..row("small", "quiche-path-2", 0, 1.0, bound) },
    ];
    let standings = standings(&rows);
    let told: Vec<_> = standings
        .iter()
        .map(|one| (one.experiment.as_str(), one.stack.as_str(), one.median(), one.worst(), one.failed))
        .collect();
    let expected = [
        ("large", "noq", Some(2.0), Some((1, 4.0)), 1),
        ("large", "quinn-best-path", Some(2.0), Some((0, 2.0)), 0),
        ("small", "noq", Some(4.5), Some((0, 4.5)), 0),
        ("small", "quiche-best-path", None, None, 1),
    ];
    assert_eq!(told, expected);
}
