use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use super::*;
use crate::profile::{Settings, Variant};
use crate::run::tests::download;
use crate::run::{Engine, Order};
use crate::store::{CSV, PARQUET, TIMELINES};

fn options(dir: &Path, threads: usize) -> SweepOptions {
    let run = RunOptions { commit: "c0ffee".into(), ..RunOptions::default() };
    SweepOptions { dir: dir.to_owned(), run, threads, ..SweepOptions::default() }
}

/// Progress that ends the sweep after `runs` runs.
struct StopAfter {
    runs: usize,
    done: AtomicUsize,
}

impl StopAfter {
    fn new(runs: usize) -> Self {
        Self { runs, done: AtomicUsize::new(0) }
    }
}

impl Progress for StopAfter {
    fn finished(&self, _: &Row) -> ControlFlow<()> {
        match self.done.fetch_add(1, Ordering::SeqCst) + 1 {
            done if done >= self.runs => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn results(dir: &Path) -> [Vec<u8>; 3] {
    [PARQUET, CSV, TIMELINES].map(|name| fs::read(dir.join(name)).unwrap())
}

#[test]
fn results_are_the_same_however_they_come_about() {
    let experiment = download(300_000);
    let dirs: Vec<_> = (0..6).map(|_| tempfile::tempdir().unwrap()).collect();
    let dir = |index: usize| dirs[index].path();
    let rows = sweep(&experiment, &options(dir(0), 1), &()).unwrap();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row.failure.is_empty() && row.commit == "c0ffee"));
    assert_eq!(store::read(dir(0)).unwrap(), rows);
    let timelines = store::timelines(dir(0)).unwrap();
    assert!(
        timelines.iter().zip(&rows).all(|(one, row)| one.variant == row.variant && one.point == row.point)
    );

    assert_eq!(sweep(&experiment, &options(dir(1), 4), &()).unwrap(), rows);
    assert_eq!(results(dir(1)), results(dir(0)), "four threads");

    let stop = StopAfter::new(3);
    let stopped = sweep(&experiment, &options(dir(2), 4), &stop).unwrap_err();
    assert!(matches!(stopped, SweepError::Stopped { done: 3.., runs: 8 }), "{stopped}");
    // A killed process leaves an incomplete line.
    let mut journal = OpenOptions::new().append(true).open(dir(2).join(journal::NAME)).unwrap();
    journal.write_all(b"{\"job\":[0,1").unwrap();
    let before = stop.done.into_inner();
    let rest = StopAfter::new(usize::MAX);
    assert_eq!(sweep(&experiment, &options(dir(2), 2), &rest).unwrap(), rows);
    assert_eq!(before + rest.done.into_inner(), 8, "no run is repeated");
    assert_eq!(results(dir(2)), results(dir(0)), "interrupted");

    for index in 0..2 {
        let shard = Shard { index, of: 2 };
        sweep(&experiment, &SweepOptions { shard, ..options(dir(3 + index), 2) }, &()).unwrap();
    }
    let merged = merge(&[dir(4).to_owned(), dir(3).to_owned()], dir(5), false, false).unwrap();
    assert_eq!((merged.missing.runs, merged.missing.of, merged.rows), (0, 8, rows));
    assert_eq!(results(dir(5)), results(dir(0)), "merged");
}

#[test]
fn what_is_done_is_only_read() {
    let experiment = download(10_000);
    let dir = tempfile::tempdir().unwrap();
    let some = SweepOptions { points: Some(vec![9]), ..options(dir.path(), 1) };
    assert_eq!(sweep(&experiment, &some, &()).unwrap().len(), 4);
    let none = StopAfter::new(1);
    assert_eq!(sweep(&experiment, &some, &none).unwrap().len(), 4);
    assert_eq!(none.done.into_inner(), 0);
    let more = SweepOptions { variants: Some(vec!["path-1".into()]), ..options(dir.path(), 1) };
    let rows = sweep(&experiment, &more, &()).unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.variant.as_str(), row.point)).collect();
    let expected =
        [("multiple-cubic", 9), ("single-cubic-ar5", 9), ("path-0", 9), ("path-1", 4), ("path-1", 9)];
    assert_eq!(names, expected);
    let eben: Vec<_> = rows.iter().map(|row| row.eben.is_some()).collect();
    assert_eq!(eben, [true, true, false, false, false]);
}

#[test]
fn a_panic_does_not_end_a_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), 2);
    options.run.hook = Some(|job| assert!(job.variant != 1, "on purpose"));
    let rows = sweep(&download(10_000), &options, &()).unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let panicked = row.failure == format!("panic with seed {}: on purpose", row.seed);
        assert_eq!(panicked, row.variant == "single-cubic-ar5", "{}", row.failure);
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    let experiment = download(10_000);
    let dir = tempfile::tempdir().unwrap();
    let fault = |options: &SweepOptions| sweep(&experiment, options, &()).unwrap_err().to_string();
    let base = || options(dir.path(), 1);
    assert_eq!(
        fault(&SweepOptions { variants: Some(vec!["x".into()]), ..base() }),
        "unknown variant `x`: use some of multiple-cubic, single-cubic-ar5, path-0, path-1"
    );
    assert_eq!(
        fault(&SweepOptions { points: Some(vec![4, 5]), ..base() }),
        "unknown point 5: this design has 4, 9"
    );
    let shard = Shard { index: 2, of: 2 };
    assert_eq!(fault(&SweepOptions { shard, ..base() }), "shard 2/2 does not exist: the first is 0/2");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    let held = lock(dir.path()).unwrap();
    assert!(fault(&base()).ends_with("another process is writing its results there"));
    drop(held);
    let one = SweepOptions { points: Some(vec![4]), variants: Some(vec!["path-0".into()]), ..base() };
    sweep(&experiment, &one, &()).unwrap();
    let empty = tempfile::tempdir().unwrap();
    assert!(merge(&[empty.path().to_owned()], dir.path(), true, false).is_err());
}

#[test]
fn runs_of_something_else_are_refused_with_what_is_different() {
    let experiment = download(10_000);
    let dir = tempfile::tempdir().unwrap();
    let mut one = SweepOptions { points: Some(vec![4]), ..options(dir.path(), 1) };
    one.variants = Some(vec!["path-0".into()]);
    sweep(&experiment, &one, &()).unwrap();
    let journal = || fs::read(dir.path().join(journal::NAME)).unwrap();
    let before = journal();
    let fault = |experiment: &Experiment, options: &SweepOptions| {
        let fault = sweep(experiment, options, &()).unwrap_err().to_string();
        assert_eq!(fault.lines().count(), 1, "{fault}");
        let (place, differences) = fault.split_once(": has runs of something else: ").unwrap();
        assert_eq!(Path::new(place), dir.path());
        differences.to_owned()
    };
    let closing = "bytes and a closing packet";
    assert_eq!(
        fault(&download(20_000), &one),
        format!("workload download of 10000 {closing} instead of download of 20000 {closing}")
    );
    let mut newer = one.clone();
    newer.run.commit = "beef".into();
    assert_eq!(fault(&experiment, &newer), "commit c0ffee instead of beef");
    let slow = Experiment { deadline: Duration::from_millis(1500), ..experiment.clone() };
    assert_eq!(fault(&slow, &newer), "deadline 60 s instead of 1.5 s, commit c0ffee instead of beef");
    let mut others = experiment.clone();
    others.variants.pop();
    assert!(fault(&others, &one).starts_with("variants with fingerprint "));
    let mut elsewhere = experiment.clone();
    elsewhere.points[1].paths[0].owd_ms += 1.0;
    assert!(fault(&elsewhere, &one).starts_with("points with fingerprint "));
    assert_eq!(journal(), before);

    // More repetitions leave the existing ones unchanged.
    let more = Experiment { repetitions: 3, ..experiment.clone() };
    let rows = sweep(&more, &one, &()).unwrap();
    assert_eq!(rows.iter().map(|row| row.repetition).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(journal().starts_with(&before));
    assert_eq!(sweep(&experiment, &one, &()).unwrap(), rows);
}

/// A build with uncommitted changes does not continue the results of another build unless forced to.
/// Afterwards no build can continue them without force.
#[test]
fn runs_of_other_sources_are_mixed_only_by_force() {
    let experiment = download(10_000);
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let dir = |index: usize| dirs[index].path().to_owned();
    let built = |place: usize, sources: &str, points: Vec<u64>| {
        let mut options = SweepOptions { points: Some(points), ..options(&dir(place), 1) };
        options.run.sources = sources.to_owned();
        options
    };
    let one = built(0, "aaaa", vec![4]);
    sweep(&experiment, &one, &()).unwrap();
    let before = fs::read(dir(0).join(journal::NAME)).unwrap();
    let mut other = built(0, "bbbb", vec![4, 9]);
    let refused = |options: &SweepOptions| match sweep(&experiment, options, &()) {
        Err(SweepError::OtherVersion { differences, .. }) => differences,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&other), "sources with hash aaaa instead of bbbb");
    assert_eq!(fs::read(dir(0).join(journal::NAME)).unwrap(), before);

    other.run.commit = "beef".to_owned();
    other.force = true;
    let rows = sweep(&experiment, &other, &()).unwrap();
    let commits: Vec<_> = rows.iter().map(|row| (row.point, row.commit.as_str())).collect();
    assert_eq!(commits, [(4, "c0ffee"), (9, "beef")].repeat(4));
    assert_eq!(refused(&one), "commit beef instead of c0ffee");
    assert_eq!(refused(&SweepOptions { force: false, ..other.clone() }), "commit c0ffee instead of beef");
    assert_eq!(sweep(&experiment, &other, &()).unwrap(), rows);

    // Results of different builds cannot be merged without force either.
    sweep(&experiment, &built(1, "bbbb", vec![4, 9]), &()).unwrap();
    let merge = |from: usize, force| merge(&[dir(1), dir(from)], &dir(2), false, force);
    assert!(matches!(merge(0, false), Err(SweepError::OtherVersion { .. })));
    assert!(!dir(2).join(journal::NAME).exists(), "nothing is written");
    assert_eq!(merge(0, true).unwrap().rows.len(), 8);
    assert!(matches!(merge(1, false), Err(SweepError::OtherVersion { .. })), "it is mixed already");
}

/// A stack outside the simulator, whose runs take as many seconds as its version says.
#[derive(Debug)]
struct Kernel(&'static str);

impl Engine for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn version(&self) -> &str {
        self.0
    }

    fn run(&self, _: &Order<'_>, row: &mut Row) -> Result<(), String> {
        row.transfer_time_s = self.0.parse().ok();
        Ok(())
    }
}

/// Returns the small download with an additional variant that an engine runs, and the index of this variant.
fn with_kernel() -> (Experiment, usize) {
    let mut experiment = download(10_000);
    let settings = Settings { external: "kernel/tcp".parse().ok(), ..Settings::default() };
    experiment.variants.push(Variant { name: "tcp".to_owned(), settings });
    let index = experiment.variants.len() - 1;
    (experiment, index)
}

fn on_kernel(dir: &Path, version: &'static str, variant: &str) -> SweepOptions {
    let mut options = SweepOptions { variants: Some(vec![variant.to_owned()]), ..options(dir, 1) };
    options.run.engines = vec![Arc::new(Kernel(version))];
    options
}

/// A sweep that began with one build of a kernel is not continued with another, and results of two builds are
/// not merged.
#[test]
fn runs_of_another_version_of_an_engine_are_refused() {
    let (experiment, _) = with_kernel();
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join(name);
    let refused = |options: &SweepOptions| match sweep(&experiment, options, &()) {
        Err(SweepError::OtherVersion { differences, .. }) => differences,
        other => panic!("{other:?}"),
    };
    let times = |rows: &[Row]| rows.iter().map(|row| row.transfer_time_s.unwrap()).collect::<Vec<_>>();
    let rows = sweep(&experiment, &on_kernel(&dir("one"), "1", "tcp"), &()).unwrap();
    assert_eq!(times(&rows), [1.0, 1.0]);
    assert_eq!(refused(&on_kernel(&dir("one"), "2", "tcp")), "engine version 1 instead of 2");
    // Variants of our own do not depend on the kernel.
    assert_eq!(sweep(&experiment, &on_kernel(&dir("one"), "2", "path-0"), &()).unwrap().len(), 4);
    assert_eq!(refused(&on_kernel(&dir("one"), "2", "tcp")), "engine version 1 instead of 2");

    // The kernel is built after the first runs; its runs then name it.
    sweep(&experiment, &on_kernel(&dir("two"), "2", "path-0"), &()).unwrap();
    assert_eq!(sweep(&experiment, &on_kernel(&dir("two"), "2", "tcp"), &()).unwrap().len(), 4);
    assert_eq!(refused(&on_kernel(&dir("two"), "1", "tcp")), "engine version 2 instead of 1");

    // Runs are taken over only from the directory with the same version of the kernel.
    let (third, runs) = (on_kernel(&dir("three"), "2", "tcp"), StopAfter::new(1));
    let found = find(&[root.path().to_owned()], &experiment, &third.run);
    assert_eq!(found, [dir("two")]);
    let also = vec![dir("one"), dir("two")];
    let copied = sweep(&experiment, &SweepOptions { also, ..third }, &runs).unwrap();
    assert_eq!((times(&copied), runs.done.into_inner()), (vec![2.0, 2.0], 0));

    let merge = |from: [&str; 3], force| merge(&from.map(dir), &dir("out"), false, force);
    sweep(&experiment, &on_kernel(&dir("ours"), "2", "path-1"), &()).unwrap();
    assert!(matches!(merge(["ours", "one", "two"], false), Err(SweepError::OtherVersion { .. })));
    assert!(!dir("out").exists(), "nothing is written");
    assert_eq!(merge(["ours", "two", "three"], false).unwrap().rows.len(), 6);

    let mut forced = on_kernel(&dir("one"), "2", "tcp");
    (forced.force, forced.points) = (true, Some(vec![4]));
    sweep(&experiment, &forced, &()).unwrap();
    assert_eq!(refused(&on_kernel(&dir("one"), "2", "path-0")), "engine version 2 instead of 1");
}

/// Programs without the engine continue the results of a program that has it. They add no version of their
/// own.
#[test]
fn looking_at_results_and_continuing_them_without_the_engine_adds_no_version() {
    let (experiment, _) = with_kernel();
    let dir = tempfile::tempdir().unwrap();
    let journal = || fs::read_to_string(dir.path().join(journal::NAME)).unwrap();
    let all = SweepOptions { points: Some(vec![4]), ..on_kernel(dir.path(), "1", "tcp") };
    let none = look(&experiment, &all).unwrap();
    assert_eq!((none.rows.len(), none.missing), (0, 1));
    sweep(&experiment, &all, &()).unwrap();
    let before = journal();

    let own = SweepOptions { variants: Some(vec!["path-0".to_owned()]), ..options(dir.path(), 1) };
    let present = look(&experiment, &own).unwrap();
    assert_eq!((present.rows.len(), present.missing), (1, 2), "a run of the kernel is there");
    let mut other = own.clone();
    other.run.commit = "0ther".to_owned();
    assert_eq!(look(&experiment, &other).unwrap().missing, 2, "versions do not matter");
    assert_eq!(journal(), before);

    let rows = sweep(&experiment, &own, &()).unwrap();
    assert!(!journal().contains("{\"version\":"), "{}", journal());
    let present = look(&experiment, &own).unwrap();
    assert_eq!((present.rows, present.missing), (rows, 0));
    let small = download(9_000);
    assert!(matches!(look(&small, &own), Err(SweepError::Other { .. })), "of another size");
}

/// Two of three machines lack the kernel. They divide the runs like the first machine, since they would
/// otherwise repeat a part of its runs. Their shares of the kernel's runs are missing until another machine
/// makes them.
#[test]
fn shards_of_machines_without_the_engine_are_not_taken_for_whole() {
    let (mut experiment, tcp) = with_kernel();
    let kernel = experiment.variants.remove(tcp);
    experiment.variants.insert(1, kernel);
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join(name);
    let names = ["multiple-cubic", "tcp", "path-0"].map(str::to_owned);
    let options = |name: &str, index, of, kernel: bool| {
        let mut options = SweepOptions {
            variants: Some(names.to_vec()),
            left_out: if kernel { Vec::new() } else { vec!["tcp".to_owned()] },
            shard: Shard { index, of },
            ..options(&dir(name), 1)
        };
        options.run.engines.extend(kernel.then(|| Arc::new(Kernel("1")) as Arc<dyn Engine>));
        options
    };
    sweep(&experiment, &options("whole", 0, 1, true), &()).unwrap();
    let with = sweep(&experiment, &options("0", 0, 3, true), &()).unwrap();
    let without = [1, 2]
        .map(|index| sweep(&experiment, &options(&index.to_string(), index, 3, false), &()).unwrap().len());
    assert_eq!((with.len(), without), (2, [2, 1]), "a run of the kernel is in the last shard");

    let merge = |names: &[&str], out: &str| {
        let dirs: Vec<_> = names.iter().map(|name| dir(name)).collect();
        merge(&dirs, &dir(out), false, false)
    };
    let said = "1 of 6 runs are missing: 1 of shard 2/3; left out for want of their program or kernel: tcp";
    assert_eq!(merge(&["1", "2", "0"], "merged").unwrap_err().to_string(), said);
    assert!(!dir("merged").exists(), "nothing is written");
    // Without the results of the machine with the kernel, no run of the kernel counts as missing.
    let own = sweep(&experiment, &options("own", 0, 3, false), &()).unwrap();
    assert_eq!(own.len(), 1);
    let merged = merge(&["own", "1", "2"], "ours").unwrap();
    assert_eq!((merged.missing.runs, merged.missing.of, merged.rows.len()), (0, 4, 4));

    sweep(&experiment, &options("2", 2, 3, true), &()).unwrap();
    assert_eq!(merge(&["0", "1", "2"], "merged").unwrap().missing.runs, 0);
    assert_eq!(results(&dir("merged")), results(&dir("whole")));
}

/// A journal without runs of engines names no engine, like journals from before engines had versions. Runs of
/// engines can be added to it.
#[test]
fn a_journal_names_engines_only_if_it_has_runs_of_them() {
    let (experiment, tcp) = with_kernel();
    let dir = tempfile::tempdir().unwrap();
    let run = on_kernel(dir.path(), "1", "tcp").run;
    let line = |variants: &[usize]| serde_json::to_string(&Header::of(&experiment, &run, variants)).unwrap();
    assert!(line(&[0, 1]).ends_with(r#""commit":"c0ffee","sources":""}"#), "{}", line(&[0, 1]));
    assert!(line(&[0, tcp]).ends_with(r#""sources":"","engines":{"kernel":"1"}}"#), "{}", line(&[0, tcp]));
    fs::write(dir.path().join(journal::NAME), line(&[0]) + "\n").unwrap();
    assert_eq!(sweep(&experiment, &on_kernel(dir.path(), "1", "tcp"), &()).unwrap().len(), 2);
}

#[test]
fn results_that_are_not_whole_must_be_asked_for() {
    let experiment = download(10_000);
    let dirs: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let dir = |index: usize| dirs[index].path().to_owned();
    // Four of the experiment's eight runs are requested.
    let shard = |index, place: usize| SweepOptions {
        shard: Shard { index, of: 3 },
        points: Some(vec![9]),
        ..options(&dir(place), 1)
    };
    sweep(&experiment, &shard(0, 0), &()).unwrap();
    // No run of this shard is done, but the journal states the requested runs.
    fs::write(dir(1).join(journal::NAME), "").unwrap();
    Journal::open(&dir(1), &Header::of(&experiment, &options(&dir(1), 1).run, &[]), false)
        .unwrap()
        .0
        .ask(&Manifest::of(&experiment, &shard(1, 1)).unwrap())
        .unwrap();
    let out = dir(3).join("out");
    let fault = merge(&[dir(0), dir(1)], &out, false, false).unwrap_err();
    assert!(matches!(fault, SweepError::Incomplete(_)));
    assert_eq!(fault.to_string(), "2 of 4 runs are missing: 1 of shard 1/3, 1 of shard 2/3");
    assert!(!out.exists(), "nothing is written");

    let merged = merge(&[dir(0)], &out, true, false).unwrap();
    assert_eq!((merged.rows.len(), merged.missing.runs, merged.missing.of), (2, 2, 4));
    // The journal in `out` already states the missing runs.
    sweep(&experiment, &shard(1, 1), &()).unwrap();
    assert!(merge(&[dir(1)], &out, false, false).unwrap_err().to_string().ends_with("1 of shard 2/3"));
    sweep(&experiment, &shard(2, 2), &()).unwrap();
    let merged = merge(&[dir(1), dir(2)], &out, false, false).unwrap();
    assert_eq!((merged.rows.len(), merged.missing.runs), (4, 0));
}

/// A read-only file fails like one on a full disk.
#[test]
fn a_line_that_cannot_be_written_is_one_clear_error() {
    let experiment = download(10_000);
    let dir = tempfile::tempdir().unwrap();
    let one = SweepOptions { points: Some(vec![4]), ..options(dir.path(), 1) };
    sweep(&experiment, &one, &()).unwrap();
    let before = fs::read(dir.path().join(journal::NAME)).unwrap();
    let (read_only, found) = Journal::look(dir.path()).unwrap();
    let fault = read_only.copy(&read_only, &found.done[0]).unwrap_err().to_string();
    assert!(fault.contains(journal::NAME) && fault.lines().count() == 1, "{fault}");
    assert_eq!(fs::read(dir.path().join(journal::NAME)).unwrap(), before);
}

#[test]
fn runs_of_other_directories_are_copied_and_not_repeated() {
    let experiment = download(300_000);
    let root = tempfile::tempdir().unwrap();
    let [there, here] = ["a/b", "here"].map(|name| root.path().join(name));
    let rows = sweep(&experiment, &options(&there, 1), &()).unwrap();
    let found = find(&[root.path().to_owned()], &experiment, &options(&here, 1).run);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0], there);
    let other = RunOptions { commit: "other".into(), ..RunOptions::default() };
    assert!(find(&[root.path().to_owned()], &experiment, &other).is_empty(), "another version");
    let runs = StopAfter::new(1);
    let copied = sweep(&experiment, &SweepOptions { also: found, ..options(&here, 1) }, &runs).unwrap();
    assert_eq!((copied, runs.done.into_inner()), (rows, 0));
    assert_eq!(results(&here), results(&there));
}
