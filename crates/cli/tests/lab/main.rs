//! `anabranch lab`, as scripts see it: small experiments, from the plan to the figures.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod claims;
mod compare;
mod interrupted;
#[cfg(target_os = "linux")]
mod linux;
mod refused;
mod shards;
mod stacks;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Plan of two variants at two points with two repetitions: eight runs.
const PLAN: &str = r#"name = "tiny"
about = "what tests run"
repetitions = 2
deadline_s = 60

[workload.download]
bytes = 20_000

[[points.inline]]
run = 3
paths = [{ rate_mbps = 20, owd_ms = 5, queue_packets = 30 }, { rate_mbps = 10, owd_ms = 20, queue_packets = 40 }]

[[points.inline]]
run = 8
paths = [{ rate_mbps = 5, owd_ms = 15, queue_bdp = 2, loss_percent = 2 }, { rate_mbps = 8, owd_ms = 9, queue_bdp = 1 }]

[[variant]]
name = "both"
layers = ["default"]

[[variant]]
name = "quic-path-0"
layers = ["default", "path-0"]
"#;

/// Files that depend only on the plan, its seeds and the program.
const RESULTS: [&str; 3] = ["runs.parquet", "runs.csv", "timelines.jsonl"];

/// An empty directory with a plan in it.
struct TestDir(tempfile::TempDir);

impl TestDir {
    fn new(plan: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("plan.toml"), plan).unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.arg("lab").args(args).current_dir(self.0.path());
        // A kernel that the user has built would add runs.
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn lab(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    fn says(&self, args: &[&str]) -> String {
        let output = self.lab(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with `status`, and returns its message.
    fn fails(&self, status: i32, args: &[&str]) -> String {
        let output = self.lab(args);
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {line}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(line.starts_with("anabranch: ") && line.trim_end().lines().count() == 1, "{args:?}: {line}");
        line
    }

    fn results(&self, dir: &str) -> [Vec<u8>; 3] {
        RESULTS.map(|name| std::fs::read(self.path(dir).join(name)).unwrap())
    }

    /// Returns the journal's lines of finished runs.
    fn journal(&self, dir: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(dir).join("journal.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.filter(|line| line.starts_with("{\"job\":")).map(str::to_owned).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the names of all files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_plan_is_run_and_summed_up() {
    let place = TestDir::new(PLAN);
    let text = place.says(&["run", "plan.toml", "--out", "all"]);
    assert!(text.starts_with("tiny: what tests run; points: the plan's own"), "{text}");
    assert!(
        text.contains("both") && text.contains("results: all") && text.contains("report: all/"),
        "{text}"
    );
    // No paper has figures of this plan, so its own are drawn.
    assert!(
        text.contains("figures: ") && text.contains(" tiny-time,") && text.contains("in all/figures"),
        "{text}"
    );
    let drawn = names(&place.path("all/figures"));
    for name in ["tiny-time.pdf", "tiny-time.png", "tiny-time.svg"] {
        assert!(drawn.iter().any(|one| one == name), "{drawn:?}");
    }
    let facts = place.says(&["run", "plan.toml", "--out", "some", "--points", "8", "--json", "-"]);
    let facts: Value = serde_json::from_str(&facts).unwrap();
    assert_eq!((&facts["experiment"], &facts["out"]), (&"tiny".into(), &"some".into()));
    let variants = facts["variants"].as_array().unwrap();
    let names: Vec<_> = variants.iter().map(|variant| variant["variant"].as_str().unwrap()).collect();
    assert_eq!(names, ["both", "quic-path-0"]);
    for variant in variants {
        assert_eq!((&variant["runs"], &variant["failures"]), (&2.into(), &0.into()), "{variant}");
        assert!(variant["transfer_time_s"]["median"].as_f64().unwrap() > 0.03, "{variant}");
    }

    let csv = std::fs::read_to_string(place.path("some/runs.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').take(5).collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), ["experiment", "variant", "point", "repetition", "seed"]);
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1], ["tiny", "both", "8", "1", "2049"]);
    assert!(rows.iter().all(|row| row[2] == "8"), "{csv}");
    // The remaining runs are added to the existing ones.
    assert_eq!(place.journal("some").len(), 4);
    place.says(&["run", "plan.toml", "--out", "some"]);
    assert_eq!((place.journal("some").len(), place.results("some")), (8, place.results("all")));
}

#[test]
fn packets_may_look_otherwise_in_every_experiment() {
    let place = TestDir::new(PLAN);
    let column = |dir: &str, name: &str| -> Vec<String> {
        let csv = std::fs::read_to_string(place.path(dir).join("runs.csv")).unwrap();
        let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let at = lines.next().unwrap().iter().position(|column| column == name).unwrap();
        lines.map(|line| line[at].clone()).collect()
    };
    for (dir, args) in
        [("v1", &[][..]), ("reverso", &["--wire", "reverso"]), ("again", &["--wire", "reverso"])]
    {
        place.says(&[&["run", "plan.toml", "--out", dir], args].concat());
    }
    assert_eq!(column("v1", "wire"), ["v1"; 8]);
    assert_eq!(column("v1", "placed_bytes"), ["0"; 8]);
    assert_eq!(column("reverso", "wire"), ["reverso"; 8]);
    assert!(column("reverso", "placed_bytes").iter().all(|bytes| bytes.parse::<u64>().unwrap() > 10_000));
    assert!(column("reverso", "failure").iter().all(String::is_empty));
    assert!(column("reverso", "restored_bytes").iter().all(|bytes| bytes.parse::<u64>().is_ok()));
    assert_eq!(place.results("again"), place.results("reverso"));
    // A plan may set the wire image, too.
    let plan = PLAN.replace("layers = [\"default\"]", "layers = [\"default\"]\nset = { wire = \"reverso\" }");
    std::fs::write(place.path("plan.toml"), plan).unwrap();
    place.says(&["run", "plan.toml", "--out", "mixed", "--repetitions", "1"]);
    assert_eq!(column("mixed", "wire"), ["reverso", "reverso", "v1", "v1"]);
    assert_eq!(place.lab(&["run", "plan.toml", "--wire", "v3"]).status.code(), Some(2));
}

#[test]
fn what_there_is_to_run_is_listed() {
    let place = TestDir::new(PLAN);
    let all = place.says(&["list"]);
    for part in ["  ccr22-heterogeneous-2path: ", "  conext17-handover: ", "  mobility: ", "picoquic", "ar5"]
    {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
    let one = place.says(&["list", "conext17-handover"]);
    assert!(
        one.starts_with("conext17-handover: ") && one.lines().any(|line| line == "  mpquic-no-signal"),
        "{one}"
    );
    let line = place.fails(2, &["list", "conext18"]);
    assert!(line.contains("unknown experiment `conext18`: use one of ccr22-homogeneous-2path, "), "{line}");
}

/// Each experiment of 2022 has the coupled controllers as variants, in addition to those of the study.
#[test]
fn coupled_controllers_need_no_plan() {
    let place = TestDir::new(PLAN);
    for experiment in ["homogeneous-2path", "heterogeneous-2path", "heterogeneous-3path"] {
        let all = place.says(&["list", &format!("ccr22-{experiment}")]);
        for controller in ["lia", "olia", "balia"] {
            for (numbering, behaviour) in
                [("multiple", "original"), ("multiple", "fixed"), ("single", "original"), ("single", "fixed")]
            {
                let name = format!("  {numbering}-{controller}-{behaviour}");
                assert!(all.lines().any(|line| line == name), "{name} is missing in\n{all}");
            }
        }
    }
    let variants = "multiple-cubic-fixed,multiple-lia-fixed,multiple-olia-fixed,multiple-balia-fixed,single-olia-original";
    let run =
        ["run", "ccr22-heterogeneous-2path", "--points", "5,25", "--bytes", "5000000", "--out", "coupled"];
    let text = place.says(&[&run[..], &["--variants", variants, "--json", "-"]].concat());
    let facts: Value = serde_json::from_str(&text).unwrap();
    let found = facts["variants"].as_array().unwrap();
    let median = |one: &Value| one["transfer_time_s"]["median"].as_f64().unwrap();
    let times: Vec<(&str, f64)> =
        found.iter().map(|one| (one["variant"].as_str().unwrap(), median(one))).collect();
    assert_eq!(times.len(), 5);
    assert!(found.iter().all(|one| one["failures"] == 0), "{text}");
    for (index, (name, time)) in times.iter().enumerate() {
        let same = times[..index].iter().find(|other| other.1 == *time);
        assert_eq!(same, None, "{name} behaves like another controller");
    }
}

#[test]
fn claims_are_judged() {
    let place = TestDir::new(PLAN);
    let claims = |args: &[&str]| -> Vec<Value> {
        serde_json::from_str(&place.says(&[&["claims", "--json", "-"], args].concat())).unwrap()
    };
    // Without runs no claim can be judged.
    let none = claims(&["--no-run"]);
    let ids: Vec<_> = none.iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    let numbered = |letter, last| (1..=last).map(move |n| format!("{letter}{n}"));
    let expected: Vec<_> = numbered("D", 15).chain(numbered("Q", 7)).chain(numbered("R", 5)).collect();
    assert_eq!(ids, expected);
    for claim in &none {
        assert!(claim["holds"].is_null() && !claim["why"].as_str().unwrap().is_empty(), "{claim}");
        assert!(!claim["threshold"].as_str().unwrap().is_empty(), "{claim}");
    }
    // The smallest sweep: one point of the handover, and the figure of the claim.
    let judged = claims(&["Q7", "--points", "100", "--repetitions", "1", "--out", "results"]);
    assert_eq!(judged.len(), 1);
    assert_eq!(judged[0]["id"], "Q7");
    assert!(judged[0]["holds"].is_boolean(), "{}", judged[0]);
    assert!(judged[0]["figure"].as_str().unwrap().contains("late in a run"), "{}", judged[0]);
    assert_eq!(place.journal("results/conext17-handover").len(), 2);
    // Existing results give the same verdict. It can also be printed as text for people.
    assert_eq!(claims(&["Q7", "--no-run", "--out", "results"]), judged);
    let text = place.says(&["claims", "Q7", "--no-run", "--out", "results"]);
    assert!(text.starts_with("Q7") && text.contains("threshold") && text.lines().count() >= 3, "{text}");
    // An experiment without the point is skipped, unless it is the only one.
    let both =
        place.lab(&["claims", "D1", "Q7", "--points", "100", "--repetitions", "1", "--out", "results"]);
    assert!(both.status.success(), "{}", stderr(&both));
    assert!(stderr(&both).contains("left out, without any of the points: ccr22-"), "{}", stderr(&both));
    let line = place.fails(2, &["claims", "D1", "--points", "100"]);
    assert!(line.contains("no such points"), "{line}");
    let wrong = place.lab(&["claims", "D16"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("one of ccr22, conext17, reverso, D1, "), "{}", stderr(&wrong));
}

/// `anabranch-bench`, beside the command, measures claims about VReverso. Existing results do not matter.
#[test]
fn claims_about_time_are_measured() {
    let place = TestDir::new(PLAN);
    let command = place.path("anabranch");
    if std::fs::hard_link(env!("CARGO_BIN_EXE_anabranch"), &command).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_anabranch"), &command).unwrap();
    }
    let claims = |args: &[&str]| Command::new(&command).args(["lab", "claims"]).args(args).output().unwrap();
    let missing = claims(&["reverso"]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    let line = stderr(&missing);
    assert!(line.ends_with("; build it with `cargo build --release -p anabranch-bench`\n"), "{line}");
    assert_eq!(line.lines().count(), 1);

    let bench = place.path("anabranch-bench");
    let sample = include_str!("../../../lab/src/claim/reverso.json");
    std::fs::write(&bench, format!("#!/bin/sh\necho \"$@\" >asked\ncat <<'END'\n{sample}END\n")).unwrap();
    std::fs::set_permissions(&bench, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command_in = Command::new(&command);
    command_in.args(["lab", "claims", "reverso", "--json", "-"]).current_dir(place.0.path());
    let output = command_in.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(place.path("asked")).unwrap(), "claims --json -\n");
    let judged: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let holds: Vec<_> =
        judged.iter().map(|claim| (claim["id"].as_str().unwrap(), claim["holds"].as_bool())).collect();
    let yes = Some(true);
    assert_eq!(holds, [("R1", yes), ("R2", yes), ("R3", yes), ("R4", yes), ("R5", None)]);
    assert!(judged.iter().all(|claim| !claim["figure"].as_str().unwrap().is_empty()), "{judged:?}");
    assert!(judged[4]["why"].as_str().unwrap().contains("in the wild"));

    std::fs::write(&bench, "#!/bin/sh\nexit 3\n").unwrap();
    assert_eq!(claims(&["R2"]).status.code(), Some(8));
}

#[test]
fn figures_are_drawn_and_drawn_again() {
    let place = TestDir::new(PLAN);
    let text =
        place.says(&["run", "conext17-handover", "--points", "100", "--repetitions", "1", "--out", "r"]);
    assert!(text.contains("figures: conext17-11 in r/figures"), "{text}");
    let drawn = names(&place.path("r/figures"));
    assert_eq!(drawn, ["conext17-11.pdf", "conext17-11.png", "conext17-11.svg"]);
    let read = || -> Vec<Vec<u8>> {
        let figures = drawn.iter().map(|name| place.path("r/figures").join(name));
        figures.chain([place.path("r/report.html")]).map(|name| std::fs::read(name).unwrap()).collect()
    };
    let before = read();
    assert!(before[0].starts_with(b"%PDF-") && before[1].starts_with(b"\x89PNG\r\n"));
    assert!(before[2].starts_with(b"<svg"));
    std::fs::remove_dir_all(place.path("r/figures")).unwrap();
    std::fs::remove_file(place.path("r/report.html")).unwrap();
    let text = place.says(&["figures", "r"]);
    assert!(text.starts_with("report: r/report.html\nfigures: conext17-11 in r/figures"), "{text}");
    assert!(read() == before, "drawn again from what is written down");
    let line = place.fails(8, &["figures", "nowhere"]);
    assert!(line.contains("nowhere"), "{line}");
}

#[test]
fn a_folder_of_plans_is_run_one_after_the_other() {
    let place = TestDir::new(PLAN);
    std::fs::create_dir(place.path("plans")).unwrap();
    for name in ["b", "a"] {
        let plan = PLAN.replace("\"tiny\"", &format!("\"{name}\""));
        std::fs::write(place.path("plans").join(format!("{name}.toml")), plan).unwrap();
    }
    let text = place.says(&["run", "plans", "--out", "results"]);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("a: what tests run") < at("b: what tests run"));
    let table = text.split("s, median:").nth(1).unwrap();
    let heads: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(heads, ["variant", "point", "3", "point", "8"]);
    assert!(table.lines().nth(2).unwrap().starts_with("both ") && table.contains("(n 2)"), "{table}");
    for name in ["a", "b"] {
        assert!(place.path("results").join(name).join("runs.csv").is_file());
    }
    std::fs::create_dir(place.path("empty")).unwrap();
    let line = place.fails(2, &["run", "empty"]);
    assert!(line.contains("empty: there is no plan"), "{line}");
}
