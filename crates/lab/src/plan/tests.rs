use anabranch_transport::recovery::congestion::{
    Acked, Congested, Controller, ControllerFactory, Sibling, Start, State,
};
use anabranch_wire::Time;

use super::*;
use crate::design::PathDesign;
use crate::experiment::{End, Workload};
use crate::profile::Wire;

const PLAN: &str = r#"
name = "mine"
about = "what it is"
repetitions = 3
deadline_s = 60

[workload.download]
bytes = 1_000_000
until = "closed"

[[points.inline]]
paths = [
    { rate_mbps = 10, owd_ms = 7.5, queue_packets = 12 },
    { rate_mbps = 50.5, owd_ms = 30, queue_bdp = 1.5, loss_percent = 0.5, changes = [{ at_s = 3, loss_percent = 100 }] },
]

[[variant]]
name = "five"
layers = ["picoquic", "fixed", "single", "cubic", "ar5"]
set = { ack_threshold = 4 }

[[variant]]
published = "multiple-cubic-fixed"
"#;

fn plan(text: &str) -> Result<Experiment, PlanError> {
    parse("p.toml", text, Path::new("/nowhere"))
}

/// Returns the error of [`PLAN`] with `new` in place of `old`.
fn fault(old: &str, new: &str) -> String {
    assert!(PLAN.contains(old), "{old}");
    let fault = plan(&PLAN.replacen(old, new, 1)).unwrap_err().to_string();
    assert_eq!(fault.lines().count(), 1, "{fault}");
    fault
}

/// Parses [`PLAN`] with other points.
fn with_points(points: &str) -> Result<Experiment, PlanError> {
    let (head, rest) = PLAN.split_once("[[points.inline]]").unwrap();
    let (_, variants) = rest.split_once("[[variant]]").unwrap();
    plan(&format!("{head}{points}\n[[variant]]{variants}"))
}

#[test]
fn a_plan_is_an_experiment() {
    let experiment = plan(PLAN).unwrap();
    assert_eq!((experiment.name.as_str(), experiment.repetitions), ("mine", 3));
    assert_eq!(experiment.about, "what it is; points: the plan's own");
    assert_eq!(experiment.deadline, Duration::from_secs(60));
    assert_eq!(experiment.workload, Workload::Download { bytes: 1_000_000, until: End::Closed });
    let paths = &experiment.points[0].paths;
    assert_eq!((paths[0].rate_mbps, paths[0].owd_ms, paths[0].queue_packets), (10.0, 7.5, 12));
    // At 50.5 Mbit/s 60 ms are 252.5 packets of 1500 bytes.
    assert_eq!((paths[1].queue_packets, paths[1].loss_percent), (378, 0.5));
    assert_eq!(
        (paths[1].changes[0].at, paths[1].changes[0].loss_percent),
        (Duration::from_secs(3), Some(100.0))
    );
    let [five, other] = &experiment.variants[..] else { panic!("two variants") };
    assert_eq!((five.name.as_str(), other.name.as_str()), ("five", "multiple-cubic-fixed"));
    assert_eq!((five.client().ack().max_ranges(), five.client().ack().threshold()), (5, 4));
    assert_eq!(*other, crate::experiment::variant("multiple-cubic-fixed").unwrap());
}

#[test]
fn a_fault_names_file_line_and_what_is_allowed() {
    assert!(
        fault("about =", "abut =")
            .starts_with("p.toml, line 3: unknown field `abut`, expected one of `name`, ")
    );
    assert_eq!(
        fault("repetitions = 3", "repetitions = 0"),
        "p.toml, line 4: 0 in `repetitions` is not a whole number from 1 to 10000"
    );
    assert!(
        fault("repetitions = 3", "repetitions = 1.5").contains("line 4: 1.5 in `repetitions` is not a whole")
    );
    assert!(
        fault("deadline_s = 60", "deadline_s = \"long\"").starts_with("p.toml, line 5: invalid type: string")
    );
    assert_eq!(
        fault("bytes = 1_000_000", "bytes = -1"),
        "p.toml, line 8: -1 in `bytes` is not a whole number from 1 to 100000000000"
    );
    assert_eq!(
        fault("\"closed\"", "\"open\""),
        "p.toml, line 9: unknown variant `open`, expected `last-byte` or `closed`"
    );
    assert_eq!(
        fault("rate_mbps = 10,", "rate_mbps = 0,"),
        "p.toml, line 13: 0 in `rate_mbps` is not a number from 0.001 to 1000000"
    );
    assert!(fault("rate_mbps = 10, ", "").starts_with("p.toml, line 13: missing field `rate_mbps`"));
    assert_eq!(
        fault(", queue_packets = 12", ""),
        "p.toml, line 13: a path needs exactly one of `queue_packets`, `queue_bdp`, `queuing_delay_ms`"
    );
    assert!(
        fault("queue_packets = 12", "queue_packets = 12, queue_bdp = 1")
            .contains("line 13: a path needs exactly")
    );
    assert!(fault("loss_percent = 0.5", "loss_percent = 101").contains("line 14: 101 in `loss_percent`"));
    assert!(
        fault("\"ar5\"", "\"ar7\"")
            .starts_with("p.toml, line 19: unknown profile `ar7`: use one of default, ")
    );
    assert!(
        fault("ack_threshold = 4", "ack_treshold = 4")
            .starts_with("p.toml, line 20: unknown field `ack_treshold`")
    );
    assert!(
        fault("multiple-cubic-fixed", "double-cubic-fixed")
            .contains("line 23: unknown profile `double`: use one")
    );
    assert!(
        fault("published = \"multiple-cubic-fixed\"", "name = \"five\"").contains("another variant `five`")
    );
    assert!(
        fault("published = \"multiple-cubic-fixed\"", "").contains("needs `name`, `published` or `each`")
    );
    assert!(
        fault("name = \"mine\"", "name = \"../mine\"")
            .contains("line 2: `../mine` is no name: use 1 to 100 of")
    );
    assert!(fault("name = \"mine\"", "name = mine").starts_with("p.toml, line 2: "));
    assert!(fault("name = \"mine\"", "").contains("missing field `name`"));
    assert!(
        fault("[workload.download]", "[workload.transfer]")
            .contains("line 7: unknown field `transfer`, expected one of")
    );
}

#[test]
fn points_come_from_exactly_one_source() {
    let fault = |points| with_points(points).unwrap_err().to_string();
    let sources = "`published`, `file`, `inline`, `wsp`, `latin`, `factorial`";
    assert!(fault("[points]").ends_with(&format!("line 11: `points` needs exactly one of {sources}")));
    assert!(
        fault("[points]\npublished = \"mobility\"\nfile = \"x\"").contains("`points` needs exactly one of")
    );
    assert!(fault("[points]\nfile = \"none.csv\"").starts_with("p.toml, line 12: /nowhere/none.csv: "));
    assert!(
        fault("[points]\npublished = \"ccr23\"")
            .starts_with("p.toml, line 12: unknown experiment `ccr23`: use one")
    );
    assert!(fault("[points]\ndata = \"x\"\nfile = \"y\"").contains("line 12: `data` belongs to `published`"));
    let data = fault("[points]\npublished = \"ccr22-homogeneous-2path\"\ndata = \"x\"");
    assert!(data.starts_with("p.toml, line 13: /nowhere/x/ccr22_homogeneous_2path.csv: "), "{data}");
    assert_eq!(with_points("[points]\npublished = \"ccr22-heterogeneous-2path\"").unwrap().points.len(), 95);
}

#[test]
fn a_column_that_is_missing_is_named() {
    let folder = std::env::temp_dir().join(format!("anabranch-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (head, _) = PLAN.split_once("[[points.inline]]").unwrap();
    let text =
        format!("{head}[points]\nfile = \"points.csv\"\n[[variant]]\nlayers = [\"default\"]\nname = \"x\"\n");
    std::fs::write(folder.join("plan.toml"), text).unwrap();
    std::fs::write(folder.join("points.csv"), "run,rate_mbps_0,owd_ms_0\n1,2,3\n").unwrap();
    let fault = read(&folder.join("plan.toml")).unwrap_err().to_string();
    assert!(
        fault.contains("plan.toml, line 12: ")
            && fault.ends_with("points.csv: column `queue_packets_0` is missing")
    );
    std::fs::write(folder.join("points.csv"), "run,rate_mbps_0,owd_ms_0,queue_packets_0\n1,2,3,4\n").unwrap();
    assert_eq!(read(&folder.join("plan.toml")).unwrap().points[0].run, 1);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(read(&folder.join("plan.toml")).unwrap_err().to_string().contains("plan.toml: "));
}

/// Parses [`PLAN`] with another first path.
fn with_path(path: &str) -> Result<Experiment, PlanError> {
    let first = "{ rate_mbps = 10, owd_ms = 7.5, queue_packets = 12 }";
    assert!(PLAN.contains(first));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans");
    parse("p.toml", &PLAN.replace(first, path), &folder)
}

#[test]
fn a_path_may_vary_and_differ_on_the_way_up() {
    let path = |text: &str| with_path(text).unwrap().points[0].paths[0].clone();
    let radio = path(
        "{ rate_mbps = 10, owd_ms = 30, queue_bdp = 1, jitter_ms = 4, reorder_percent = 0.5, reorder_ms = 12, \
         changes = [{ at_s = 2, owd_ms = 80 }, { at_s = 3, rate_mbps = 4, loss_percent = 2 }], \
         up = { rate_mbps = 2, loss_percent = 1 } }",
    );
    assert_eq!((radio.jitter_ms, radio.reorder_percent, radio.reorder_ms), (4.0, 0.5, 12.0));
    assert_eq!(radio.changes[0].owd_ms, Some(80.0));
    let up = radio.up.as_ref().unwrap();
    // Unset parameters of `up` have the values of the other direction. The queue has the same number of
    // bandwidth-delay products, computed with the rate of `up`.
    assert_eq!((up.rate_mbps, up.owd_ms, up.loss_percent, up.jitter_ms), (2.0, 30.0, 1.0, 4.0));
    assert_eq!((radio.queue_packets, up.queue_packets), (50, 10));
    // Changes of parameters that `up` sets do not apply to it.
    let left: Vec<_> =
        up.changes.iter().map(|change| (change.rate_mbps, change.owd_ms, change.loss_percent)).collect();
    assert_eq!(left, [(None, Some(80.0), None), (None, None, None)]);

    let lte =
        path("{ mahimahi = \"lte.down\", owd_ms = 25, queue_packets = 300, up = { mahimahi = \"lte.up\" } }");
    assert!(lte.trace.is_some() && lte.rate_mbps > 5.0 && lte.up.unwrap().rate_mbps < lte.rate_mbps);
    let train = path("{ rate_mbps = 20, owd_ms = 25, queue_bdp = 1, trace = \"train.csv\" }");
    assert!(train.changes.iter().any(|change| change.owd_ms.is_some()));
    assert!(train.changes.iter().any(|change| change.rate_mbps.is_some()));
}

#[test]
fn a_path_that_cannot_be_is_one_line() {
    for (path, said) in [
        ("owd_ms = 1, queue_bdp = 1", "missing field `rate_mbps`, or `mahimahi` in its place"),
        (
            "rate_mbps = 1, mahimahi = \"lte.down\", owd_ms = 1, queue_bdp = 1",
            "either `rate_mbps` or `mahimahi`, not both",
        ),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, jitter_ms = -1",
            "-1 in `jitter_ms` is not a number from 0 to 10000",
        ),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, reorder_percent = 1",
            "`reorder_percent` and `reorder_ms` belong together",
        ),
        (
            "alike = 2, rate_mbps = 1, owd_ms = 1, queue_bdp = 1",
            "`alike` belongs to a path of generated points",
        ),
        ("rate_mbps = 1, owd_ms = 1, queue_bdp = 1, up = { up = {} }", "`up` has no `up` of its own"),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, up = { rate = 2 }",
            "unknown field `rate`, expected one of `rate_mbps`",
        ),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, up = { queue_bdp = 1, queue_packets = 9 }",
            "a path needs exactly one of",
        ),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, changes = [], trace = \"train.csv\"",
            "either `changes` or `trace`, not both",
        ),
        (
            "mahimahi = \"lte.down\", owd_ms = 1, queue_bdp = 1, trace = \"train.csv\"",
            "nothing else can change it",
        ),
        ("mahimahi = \"none.down\", owd_ms = 1, queue_bdp = 1", "none.down: "),
        (
            "mahimahi = \"train.csv\", owd_ms = 1, queue_bdp = 1",
            "train.csv, line 1: `at_s,rate_mbps,owd_ms` is not a number of",
        ),
        ("rate_mbps = 1, owd_ms = 1, queue_bdp = 1, trace = \"lte.down\"", "lte.down: unknown column `"),
        (
            "rate_mbps = 1, owd_ms = 1, queue_bdp = 1, changes = [{ at_s = 1, owd_ms = -2 }]",
            "-2 in `owd_ms` is not a number",
        ),
    ] {
        let fault = with_path(&format!("{{ {path} }}")).unwrap_err().to_string();
        assert!(fault.starts_with("p.toml, line 13: ") && fault.contains(said), "{fault}");
        assert_eq!(fault.lines().count(), 1, "{fault}");
    }
}

#[test]
fn points_are_generated_over_ranges() {
    let wsp = "[points.wsp]\nseed = 16\ncandidates = 120\nspacing = 1.2\ndimensions = 20\npaths = \
               [{ alike = 2, rate_mbps = { from = 2.5, to = 100 }, owd_ms = { from = 5, to = 50 }, queue_bdp = 1.5 }]";
    let points = with_points(wsp).unwrap().points;
    assert_eq!(points.len(), 95);
    assert!(points.iter().all(|point| point.paths.len() == 2 && point.paths[0] == point.paths[1]));
    assert_eq!(points[5].run, 5);

    // A generated path accepts all parameters of an explicit one, in `up` too.
    let radio = "[points.latin]\ncount = 20\npaths = [{ rate_mbps = { from = 5, to = 30 }, owd_ms = 10, queue_bdp = 1, \
                 jitter_ms = { from = 1, to = 9 }, reorder_percent = { values = [1, 2] }, reorder_ms = 8, \
                 changes = [{ at_s = 1, owd_ms = 20 }], up = { rate_mbps = { from = 1, to = 2 } } }]";
    let points = with_points(radio).unwrap().points;
    let paths: Vec<_> = points.iter().map(|point| &point.paths[0]).collect();
    assert!(paths.iter().all(|path| (1.0..=9.0).contains(&path.jitter_ms) && path.reorder_ms == 8.0));
    assert_eq!(paths.iter().filter(|path| path.reorder_percent == 2.0).count(), 10);
    let up = |path: &&PathDesign| path.up.as_ref().unwrap().clone();
    assert!(paths.iter().map(up).all(|up| (1.0..=2.0).contains(&up.rate_mbps) && up.changes.len() == 1));
    assert!(paths.windows(2).any(|two| two[0].jitter_ms != two[1].jitter_ms));
    let wrong = |old: &str, new: &str| with_points(&radio.replace(old, new)).unwrap_err().to_string();
    assert!(
        wrong("from = 1, to = 9", "from = -1, to = 9").contains("-1 in `jitter_ms` is not a number from 0")
    );
    assert!(
        wrong("from = 1, to = 2", "from = 0, to = 2").contains("0 in `rate_mbps` is not a number from 0.001")
    );
    assert!(wrong("reorder_ms = 8,", "").contains("belong together"));
    assert!(wrong("up = {", "up = { alike = 2,").contains("not to its way `up`"));
    let many = "[points.latin]\ncount = 9000\npaths = [{ alike = 8, rate_mbps = 5, owd_ms = 10, queue_bdp = 1, changes = [";
    let many = many.to_owned() + &"{ at_s = 1, owd_ms = 20 },".repeat(140) + "] }]";
    let fault = with_points(&many).unwrap_err().to_string();
    assert!(fault.contains("all points together have more than 10000000 changes"), "{fault}");

    let latin = "[points.latin]\ncount = 30\ndraws = 5\npaths = [{ rate_mbps = { from = 0, to = 30 }, owd_ms = 10, \
                 queue_packets = { values = [10, 100] } }]";
    assert!(
        with_points(latin)
            .unwrap_err()
            .to_string()
            .contains("line 14: 0 in `rate_mbps` is not a number from 0.001")
    );
    let points = with_points(&latin.replace("from = 0,", "from = 1,")).unwrap().points;
    let long = points.iter().filter(|point| point.paths[0].queue_packets == 100).count();
    assert_eq!((points.len(), long), (30, 15));

    let factorial = "[points.factorial]\nlevels = 3\npaths = [{ rate_mbps = { from = 10, to = 30 }, owd_ms = \
                     { values = [1, 5] }, queuing_delay_ms = 0, loss_percent = { from = 0, to = 2 } }]";
    let points = with_points(factorial).unwrap().points;
    let found: Vec<_> = points
        .iter()
        .map(|point| &point.paths[0])
        .map(|path| (path.rate_mbps, path.owd_ms, path.loss_percent))
        .collect();
    assert_eq!(found.len(), 18);
    assert_eq!(found[..4], [(10.0, 1.0, 0.0), (10.0, 1.0, 1.0), (10.0, 1.0, 2.0), (10.0, 5.0, 0.0)]);
    let many = with_points(&factorial.replace("levels = 3", "levels = 900")).unwrap_err().to_string();
    assert!(many.contains("[900, 2, 900] levels are more than 10000 points"), "{many}");
    let wrong = |old: &str, new: &str| with_points(&factorial.replace(old, new)).unwrap_err().to_string();
    assert!(wrong("from = 10, to = 30", "from = 30, to = 10").contains("`from` must not be above `to`"));
    assert!(wrong("values = [1, 5]", "values = []").contains("`owd_ms` has no values"));
    assert!(wrong("values = [1, 5]", "value = 5").contains("unknown field `value`, expected one of `from`"));
    assert!(wrong("values = [1, 5]", "from = 5").contains("a parameter is a number, { from"));
}

/// A controller that a program defines, as `examples/own-algorithms` does: its window never changes.
#[derive(Debug)]
struct Constant(u64);

impl Controller for Constant {
    fn on_acked(&mut self, _: &Acked<'_>, _: &[Sibling]) {}
    fn on_congestion(&mut self, _: &Congested, _: &[Sibling]) {}
    fn on_spurious(&mut self, _: Time) {}
    fn on_persistent_congestion(&mut self, _: Time, _: u64) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn state(&self) -> State {
        State::CongestionAvoidance
    }
}

#[derive(Debug)]
struct Factory;

impl ControllerFactory for Factory {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn build(&self, start: &Start) -> Box<dyn Controller> {
        Box::new(Constant(start.window))
    }
}

#[test]
fn plans_name_controllers_that_a_program_brings_along() {
    let text = |congestion: &str| {
        format!(
            "name = \"own\"\nworkload.download = {{ bytes = 200_000, until = \"last-byte\" }}\n\
             points.inline = [{{ paths = [{{ rate_mbps = 100, owd_ms = 50, queue_bdp = 1 }}] }}]\n\
             variant = [{{ name = \"own\", layers = [\"default\", \"path-0\"], set = {{ congestion = \"{congestion}\" }} }}]\n"
        )
    };
    assert!(plan(&text("constant")).unwrap_err().to_string().contains("newreno"), "not known yet");
    anabranch_transport::recovery::Algorithm::register(&Factory).unwrap();
    let seconds = |congestion: &str| {
        let experiment = plan(&text(congestion)).unwrap();
        let job = experiment.jobs().next().unwrap();
        crate::run::run(&experiment, job, &crate::run::RunOptions::default()).row.last_byte_s.unwrap()
    };
    // At ten packets per round trip of 100 ms the transfer takes 14 round trips. With slow start it takes
    // four.
    assert!(seconds("constant") > 2.0 * seconds("newreno"));
}

#[test]
fn a_variant_may_be_many() {
    let each = |each: &str| {
        let (head, _) = PLAN.split_once("[[variant]]").unwrap();
        plan(&format!(
            "{head}[[variant]]\npublished = \"multiple-cubic-fixed\"\nname = \"x\"\neach = {each}\n"
        ))
    };
    let all = each("{ scheduler = [\"*\"] }").unwrap().variants;
    assert_eq!(all.len(), anabranch_transport::schedule::Algorithm::NAMES.len());
    for (variant, name) in all.iter().zip(anabranch_transport::schedule::Algorithm::NAMES) {
        assert_eq!(variant.name, format!("x-{name}"));
        assert_eq!(variant.server().multipath().unwrap().scheduler().name(), *name);
    }
    let some = each("{ congestion = [\"lia\", \"cubic\"] }").unwrap().variants;
    assert_eq!(some.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["x-lia", "x-cubic"]);
    let wires = each("{ wire = [\"v1\", \"reverso\"] }").unwrap().variants;
    assert_eq!(wires.iter().map(|variant| variant.wire()).collect::<Vec<_>>(), [Wire::V1, Wire::Reverso]);
    let fault = each("{ scheduler = [\"fastest\"] }").unwrap_err().to_string();
    assert!(fault.contains("`fastest`: unknown scheduler") && fault.contains("min-rtt"), "{fault}");
    assert!(fault.ends_with("or `*` for all of them"), "{fault}");
    assert!(each("{ colour = [] }").unwrap_err().to_string().contains("unknown field `colour`"));
    assert!(
        each("{ scheduler = [\"*\", \"min-rtt\"] }").unwrap_err().to_string().contains("another variant")
    );
    assert!(
        each("{}")
            .unwrap_err()
            .to_string()
            .contains("`each` needs exactly one of `scheduler`, `congestion`, `wire`")
    );
}

#[test]
fn every_workload_can_be_planned() {
    let workload =
        |text: &str| plan(&PLAN.replace("[workload.download]\nbytes = 1_000_000\nuntil = \"closed\"", text));
    let requests = "[workload.requests]\nrequest = 750\nanswer = 750\nevery_ms = 400\ncount = 40";
    let every = Duration::from_millis(400);
    let expected = Workload::Requests { request: 750, answer: 750, every, count: 40 };
    assert_eq!(workload(requests).unwrap().workload, expected);
    let competition = "[workload.competition]\nothers = 3\nlength_s = 60\none_link = true";
    let expected = Workload::Competition { others: 3, length: Duration::from_secs(60), one_link: true };
    assert_eq!(workload(competition).unwrap().workload, expected);
    let upload = workload("[workload.upload]\nbytes = 5_000_000").unwrap().workload;
    assert_eq!(upload, Workload::Upload { bytes: 5_000_000 });
    let both = workload(&format!("{competition}\n{requests}")).unwrap_err().to_string();
    assert!(
        both.contains("`workload` needs exactly one of `download`, `upload`, `requests`, `competition`"),
        "{both}"
    );
}

#[test]
fn the_example_plans_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans");
    let mut names = Vec::new();
    let entries =
        [folder.clone(), folder.join("schedulers")].map(|folder| std::fs::read_dir(folder).unwrap());
    for entry in entries.into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let experiment = read(&path).unwrap();
            assert_eq!(Some(experiment.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
            names.push((experiment.name, experiment.points.len()));
        }
    }
    names.sort();
    let names: Vec<_> = names.iter().map(|(name, points)| (name.as_str(), *points)).collect();
    let expected = [
        ("bursts", 2),
        ("coupled-long", 18),
        ("failure", 2),
        ("generated", 24),
        ("handover", 1),
        ("limited-window", 3),
        ("loss", 2),
        ("lossy", 40),
        ("mobile", 3),
        ("perf-in-guest", 20),
        ("reordering", 4),
        ("schedulers", 95),
        ("small-requests", 2),
        ("streaming", 4),
        ("weights", 1),
        ("wires", 5),
    ];
    assert_eq!(names, expected);
}

#[test]
fn rubbish_is_refused_and_nothing_worse() {
    let mut rng = crate::random::Seed(3).rng("rubbish");
    for _ in 0..3000 {
        let mut text: Vec<char> = PLAN.chars().collect();
        for _ in 0..rng.between(1, 6) {
            let at = rng.below(text.len() as u64) as usize;
            match rng.below(3) {
                0 => text[at] = rng.pick(&['"', '[', ']', '{', '=', '9', '-', '\n', 'é']),
                1 => drop(text.remove(at)),
                _ => text.insert(at, rng.pick(&['.', ',', '0', ' ', '#', '}', 'e'])),
            }
        }
        if let Err(fault) = plan(&text.into_iter().collect::<String>()) {
            assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
        }
    }
}
