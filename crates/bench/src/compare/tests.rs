use super::*;

fn row(variant: &str, point: u64, time: f64) -> Row {
    Row {
        experiment: "compare-2path-50mb".to_owned(),
        variant: variant.to_owned(),
        point,
        transfer_time_s: Some(time),
        bound_s: Some(2.0),
        path_rate_mbps: vec![1.0, 2.0],
        retransmitted_percent: Some(time),
        lost_packets: Some(point + 4),
        ..Row::default()
    }
}

#[test]
fn stacks_are_summed_up_by_design() {
    let rows = [
        row("quinn-path-0", 0, 5.0),
        row("quinn-path-1", 0, 4.0),
        row("quinn-path-1", 1, 6.0),
        row("noq", 0, 3.0),
        row("quic-path-1", 0, 8.0),
        Row { failure: "gave up".to_owned(), ..row("noq-bbr", 0, 1.0) },
    ];
    let best = best("2path-50mb", &rows);
    let told: Vec<_> =
        best.iter().map(|one| (one.stack.as_str(), one.point, one.paths, one.time_over_bound)).collect();
    let expected = [
        ("anabranch-best-path", 0, 1, 4.0),
        ("noq", 0, 2, 1.5),
        ("quinn-best-path", 0, 1, 2.0),
        ("quinn-best-path", 1, 1, 3.0),
    ];
    assert_eq!(told, expected);
    let summaries = summaries(&rows, &best);
    let told: Vec<_> = summaries
        .iter()
        .map(Summary::json)
        .map(|one| ["stack", "points", "failed", "median", "worst"].map(|key| one[key].clone()))
        .collect();
    let expected = [
        [json!("noq"), json!(1), json!(0), json!(1.5), json!(1.5)],
        [json!("quinn-best-path"), json!(2), json!(0), json!(2.5), json!(3.0)],
        [json!("anabranch-best-path"), json!(1), json!(0), json!(4.0), json!(4.0)],
        [json!("noq-bbr"), json!(0), json!(1), Value::Null, Value::Null],
    ];
    assert_eq!(told, expected);
    assert_eq!(summaries[1].json()["worst_point"], 1);
    assert_eq!(best[1].json()["repeated_percent"], 3.0);
    assert_eq!(
        (&best[3].json()["lost_packets"], &best[3].json()["variant"]),
        (&5.into(), &"quinn-path-1".into())
    );
    assert_eq!(summaries[1].json()["median_lost_packets"], 4.5);
    // No CPU time was measured.
    assert_eq!(
        (&summaries[1].json()["median_cpu_s"], &best[0].json()["cpu_s"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(summaries[1].cells().last().unwrap(), "-");
}

#[test]
fn runs_of_others_are_named_with_their_makers() {
    let experiment = experiment::named("compare-2path-256kb", None).unwrap();
    let absent = absent(&experiment);
    let why = |name: &str| absent.iter().find(|(variant, _)| variant == name).map(|(_, why)| why.as_str());
    assert_eq!(why("linux-mptcp-tls13"), Some("`anabranch lab run compare-2path-256kb` runs it"));
    assert_eq!(why("anabranch-multiple"), None);
}
