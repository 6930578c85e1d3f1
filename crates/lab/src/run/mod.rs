//! Run of a variant at a point of an experiment, from its seed to its [`Row`].

mod competition;
mod download;
mod engine;
mod guest;
mod guest_counts;
mod observe;
mod qlog;
mod requests;
mod scene;
#[cfg(test)]
pub(crate) mod tests;
mod upload;

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use crate::design::Point;
use crate::experiment::{End, Experiment, Job, Workload};
use crate::fluid::{self, Return};
use crate::guest::Limits;
use crate::record::{Row, Timeline};

pub use self::engine::{Engine, Order};
use self::observe::Recorder;
use self::scene::{RunResult, Scene};

/// Options of a run, in addition to its experiment and job.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Commit that the rows state.
    pub commit: String,
    /// Hash of the sources from which the program was built.
    pub sources: String,
    /// Directory for the qlog traces, two files for each run.
    pub qlog: Option<PathBuf>,
    /// Engines for external stacks.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Limits of guest programs in real time.
    pub limits: Limits,
    /// Function that is called in the middle of each run.
    #[cfg(test)]
    pub(crate) hook: Option<fn(Job)>,
}

/// Results of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// Values of the run.
    pub row: Row,
    /// Course of the run over time.
    pub timeline: Timeline,
    /// Indices of the point's paths that the run used.
    pub paths: Vec<usize>,
}

/// Runs one job. A run that stalls ends at the experiment's deadline. The row states the reason of this or
/// any other failure, such as a panic, and contains the counts up to that moment.
pub fn run(experiment: &Experiment, job: Job, options: &RunOptions) -> Finished {
    let point = &experiment.points[job.point];
    let variant = &experiment.variants[job.variant];
    if let Some(external) = variant.external() {
        return engine::run(experiment, job, options, external);
    }
    let paths = variant.paths(point.paths.len());
    let recorder = Recorder::default();
    let scene = Scene { experiment, job, options, paths: &paths, recorder: &recorder };
    let result = catch_unwind(AssertUnwindSafe(|| play(&scene))).unwrap_or_else(|payload| {
        RunResult::failed(format!("panic with seed {}: {}", experiment.seed(job), message(&*payload)))
    });
    let mut row = Row { wire: variant.wire().to_string(), ..named(experiment, job, options) };
    let counts = result.guest;
    result.fill(&mut row);
    let timeline = recorder.finish(&mut row, variant.client().ack().max_ranges(), paths.len());
    if variant.settings.guest.is_some() {
        counts.unwrap_or_default().fill(&mut row);
    }
    Finished { row, timeline, paths }
}

/// Returns a row that identifies the run and describes its point.
fn named(experiment: &Experiment, job: Job, options: &RunOptions) -> Row {
    let point = &experiment.points[job.point];
    Row {
        experiment: experiment.name.clone(),
        variant: experiment.variants[job.variant].name.clone(),
        point: point.run,
        repetition: job.repetition,
        seed: experiment.seed(job),
        commit: options.commit.clone(),
        path_rate_mbps: point.paths.iter().map(|path| path.rate_mbps).collect(),
        path_owd_ms: point.paths.iter().map(|path| path.owd_ms).collect(),
        bound_s: bound(&experiment.workload, point),
        ..Row::default()
    }
}

/// Returns the fluid bound of a download over plain paths; `None` for other workloads and paths.
fn bound(workload: &Workload, point: &Point) -> Option<f64> {
    match *workload {
        Workload::Download { bytes, .. } if point.is_plain() => {
            Some(fluid::bound(&point.fluid(), bytes as f64, Return::Quickest))
        }
        _ => None,
    }
}

fn play(scene: &Scene<'_>) -> RunResult {
    let programs = scene.variant().settings.guest.as_ref();
    let result = match (&scene.experiment.workload, programs) {
        (Workload::Download { bytes, until: End::LastByte }, Some(programs)) => {
            guest::play(scene, *bytes, programs)
        }
        (_, Some(_)) => Err("guests can only download until the last byte".to_owned()),
        (workload, None) => own(scene, workload),
    };
    result.unwrap_or_else(RunResult::failed)
}

/// Runs a workload with the library at both ends.
fn own(scene: &Scene<'_>, workload: &Workload) -> Result<RunResult, String> {
    match *workload {
        Workload::Download { bytes, until } => download::play(scene, bytes, until),
        Workload::Upload { bytes } => upload::play(scene, bytes),
        Workload::Requests { request, answer, every, count } => {
            requests::play(scene, requests::Plan { request, answer, every, count })
        }
        Workload::Competition { others, length, one_link } => {
            competition::play(scene, competition::Plan { others, length, one_link })
        }
    }
}

/// Returns the message of a panic.
fn message(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
