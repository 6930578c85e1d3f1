//! `cargo xtask bounds`: each bound of docs/threats.md is taken out, and its tests must then fail.
//!
//! All bounds are taken out of one copy of the workspace, each behind a switch that an environment variable
//! turns at run time, so that the tests are built once.
//!
//! The rows `driver` are lines of the library that several tasks depend on. Their tests run under the model checker, in a program
//! of their own.

mod build;
mod driver;
mod list;
mod table;
mod trial;
mod workspace;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use self::build::Program;
use self::list::{Bound, List};
use self::trial::{Outcome, Trial};

/// Options of the command.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only check the list: each text is found once, each test exists, and no bound of docs/threats.md is missing
    #[arg(long)]
    check: bool,
    /// Only the tests in this crate (`transport`, …), and their bounds
    #[arg(long = "crate", value_name = "CRATE")]
    crates: Vec<String>,
    /// Only the bounds of this row
    #[arg(long, value_name = "ROW")]
    row: Vec<String>,
    /// Number of tests that run at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Write docs/bounds.md, which then lists the bounds that this run left out as not run
    #[arg(long, conflicts_with = "check")]
    write: bool,
}

/// Tried of a bound's tests with the bound taken out.
#[derive(Debug)]
struct Tried {
    bound: Bound,
    outcomes: Vec<Outcome>,
}

/// Returns the faults of the list, for `tidy`.
pub(super) fn faults(root: &Path) -> Result<Vec<String>, String> {
    list::read()?.faults(root)
}

/// Takes out the bounds. Returns whether all of their tests failed, and none of them fails with the bounds.
pub(super) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let list = list::read()?;
    let faults = list.faults(root)?;
    for fault in &faults {
        println!("fault: {fault}");
    }
    if arguments.check {
        println!(
            "bounds: {} bounds, {} not taken out, {} faults",
            list.bounds.len(),
            list.kept.len(),
            faults.len()
        );
        return Ok(faults.is_empty());
    }
    let wanted = wanted(&list, arguments);
    let copy = workspace::write(root, &list)?;
    let tests: BTreeSet<&str> = wanted.iter().flat_map(|bound| &bound.tests).map(String::as_str).collect();
    let programs = build::build(&copy, &tests)?;
    let trials = find(&programs, &tests)?;
    let good = intact(&trials, arguments.jobs);
    let results = without(&wanted, &trials, arguments.jobs);
    let survivors: usize = results.iter().map(Tried::survivors).sum();
    println!(
        "bounds: {} taken out, {} tests, {survivors} passed nevertheless",
        results.len(),
        results.iter().map(|result| result.outcomes.len()).sum::<usize>()
    );
    if arguments.write {
        table::write(root, &list, &results)?;
    }
    Ok(good && survivors == 0 && faults.is_empty())
}

/// Returns the bounds that the options select, with those of their tests that are in the selected crates.
fn wanted(list: &List, arguments: &Arguments) -> Vec<Bound> {
    let is_of_crate = |test: &String| {
        let folder = test.split('/').next().unwrap_or_default();
        arguments.crates.is_empty() || arguments.crates.iter().any(|name| name == folder)
    };
    let mut bounds = list.bounds.clone();
    bounds.retain(|bound| arguments.row.is_empty() || arguments.row.contains(&bound.row));
    bounds.iter_mut().for_each(|bound| bound.tests.retain(is_of_crate));
    bounds.retain(|bound| !bound.tests.is_empty());
    bounds
}

/// Finds the program of each test.
fn find(programs: &[Program], tests: &BTreeSet<&str>) -> Result<Vec<Trial>, String> {
    tests.iter().map(|test| build::find(programs, test)).collect()
}

/// Runs each test with all bounds in place, and records how long it takes. Returns whether all passed.
fn intact(trials: &[Trial], jobs: usize) -> bool {
    let mut good = true;
    let all: Vec<&Trial> = trials.iter().collect();
    for (trial, outcome) in all.iter().zip(each(&all, jobs, |trial| trial.intact())) {
        if outcome.has_failed() {
            println!("{}: fails with all bounds in place: {outcome}", trial.test);
            good = false;
        }
    }
    good
}

/// Runs the tests of each bound with the bound taken out.
fn without(wanted: &[Bound], trials: &[Trial], jobs: usize) -> Vec<Tried> {
    let pairs: Vec<(&Bound, &Trial)> = wanted
        .iter()
        .flat_map(|bound| {
            let of = |test: &String| trials.iter().find(|trial| trial.test == *test);
            bound.tests.iter().filter_map(of).map(move |trial| (bound, trial))
        })
        .collect();
    let outcomes = each(&pairs, jobs, |(bound, trial)| {
        let outcome = trial.without(&bound.switch());
        let name = trial.test.split('#').next_back().unwrap_or_default();
        let mark = if outcome.has_failed() { "  " } else { "! " };
        println!("{mark}{}: {name}: {outcome}", bound.switch());
        outcome
    });
    let mut outcomes = outcomes.into_iter();
    let take = |bound: &Bound| Tried {
        bound: bound.clone(),
        outcomes: outcomes.by_ref().take(bound.tests.len()).collect(),
    };
    wanted.iter().map(take).collect()
}

/// Applies `action` to each item in several threads. The results are in the items' order.
fn each<T: Sync, R: Send>(items: &[T], jobs: usize, action: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = take_next(&next);
                    let Some(item) = items.get(index) else { return };
                    let result = action(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns the index and increments it.
fn take_next(next: &Mutex<usize>) -> usize {
    let mut next = next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *next += 1;
    *next - 1
}

impl Tried {
    /// Returns the number of tests that pass although the bound is taken out.
    fn survivors(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.has_failed()).count()
    }
}

/// Folder below the target folder, for the copy and what is built of it.
fn scratch(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("bounds")
}
