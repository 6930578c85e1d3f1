use super::*;

#[test]
fn every_benchmark_is_called_as_it_can_be() {
    for part in ALL {
        let rounds: &[&str] = if IN_ROUNDS.contains(&part.args[0]) { &["--rounds", "3"] } else { &[] };
        for more in [&[], part.quick, rounds] {
            let args = [part.args, more].concat();
            let cli = Cli::try_parse_from(std::iter::once("anabranch-bench").chain(args.iter().copied()));
            assert!(
                cli.is_ok(),
                "{args:?}: {}",
                cli.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
    }
}

/// Checks that a full run writes nothing if other programs load the machine, before or after it.
#[test]
fn a_loaded_machine_writes_nothing() {
    let root = std::env::temp_dir().join(format!("anabranch-bench-load-{}", std::process::id()));
    std::fs::create_dir_all(root.join("docs")).unwrap();
    let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    for name in [TABLES, FIGURES] {
        std::fs::write(root.join(name), &document).unwrap();
    }
    let git = |args: &[&str]| said(&root, "git", args).unwrap();
    git(&["init", "-q"]);
    git(&["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x"]);
    let only = vec!["idle".to_owned()];
    let options = Options { quick: false, write: true, rounds: None, only, root: root.clone() };
    for (loads, when) in [(vec![9.0], "before"), (vec![0.0, 90.0], "after")] {
        let mut left = loads.into_iter();
        let fault = run_with(&options, &mut || left.next()).unwrap_err().to_string();
        assert!(fault.contains(&format!("{when} the measurement")) && left.next().is_none(), "{fault}");
        for name in [TABLES, FIGURES] {
            assert_eq!(std::fs::read_to_string(root.join(name)).unwrap(), document);
        }
    }
    // The command is not built where tests look for it, so the full tables would lack its rows.
    assert!(stacks::check_ours().is_err(), "a full run would begin");
    let fault =
        run_with(&Options { only: Vec::new(), ..options }, &mut || Some(0.0)).unwrap_err().to_string();
    assert!(fault.contains("is not built; this builds our command: "), "{fault}");
    let mut left = [0.0, 0.0].into_iter();
    let options = Options {
        quick: false,
        write: true,
        rounds: None,
        only: vec!["idle".to_owned()],
        root: root.clone(),
    };
    run_with(&options, &mut || left.next()).unwrap();
    let text = std::fs::read_to_string(root.join(TABLES)).unwrap();
    assert!(text.contains(", load 0.00 before and 0.00 after, ") && text.contains(SETTINGS), "{text}");
    std::fs::remove_dir_all(&root).unwrap();
}

/// Checks that benchmarks which need no other program run, and that their results are written between the
/// marks.
#[test]
fn tables_and_figures_are_written_between_the_marks() {
    let root = std::env::temp_dir().join(format!("anabranch-bench-all-{}", std::process::id()));
    std::fs::create_dir_all(root.join("docs")).unwrap();
    let git = |args: &[&str]| said(&root, "git", args).unwrap();
    for name in [TABLES, FIGURES] {
        std::fs::write(root.join(name), format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
    }
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]);
    std::fs::write(root.join("docs/changed"), "").unwrap();
    git(&["add", "."]);
    let only = vec!["idle".to_owned(), "simulate".to_owned()];
    let options = Options { quick: true, write: true, rounds: None, only, root: root.clone() };
    let json = run(&options).unwrap();
    assert!(json["benchmarks"]["idle"]["connections"] == 200, "{json}");
    let [tables, figures] = [TABLES, FIGURES].map(|name| std::fs::read_to_string(root.join(name)).unwrap());
    for text in [&tables, &figures] {
        assert!(
            text.starts_with(&format!("before\n{BEGIN}\n")) && text.ends_with(&format!("{END}\nafter\n"))
        );
        assert!(!text.contains("old") && text.contains(&git(&["rev-parse", "--short=12", "HEAD"])), "{text}");
        assert!(text.contains(" with 1 file changed since, ") && text.contains("**A short run"), "{text}");
    }
    assert!(
        summed_up("gaps\n\n  all: 3\n\nThe longest:") == summed_up("gaps\n\n  all: 3\n"),
        "the line before rows that are not there is left out"
    );
    assert!(
        tables.contains("Not measured: left out") && tables.contains("-- idle --connections 200`"),
        "{tables}"
    );
    let lines: Vec<&str> = figures.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), 2 + ALL.len());
    assert!(lines.iter().all(|line| tables.lines().any(|other| other == *line)), "{figures}");
    assert_eq!(lines.iter().filter(|line| line.contains("not measured")).count(), ALL.len() - 2);

    std::fs::write(root.join(FIGURES), "no place\n").unwrap();
    let fault = run(&options).unwrap_err().to_string();
    assert!(fault.starts_with("README.md has no lines "), "{fault}");
    std::fs::remove_dir_all(&root).unwrap();
}
