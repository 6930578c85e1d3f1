//! Engines outside the simulator, which run external stacks. The program that uses the lab adds them to
//! [`RunOptions`]. Their rows have the same form as those of the simulator.

use core::fmt;
use core::time::Duration;

use anabranch_transport::recovery::Algorithm as Congestion;

use crate::design::PathDesign;
use crate::experiment::{Experiment, Job, Workload};
use crate::profile::External;
use crate::record::{Row, Timeline};

use super::{Finished, RunOptions};

/// Engine that runs external stacks.
///
/// Equal orders must give equal rows, regardless of earlier and concurrent runs.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Returns the name by which variants select the engine.
    fn name(&self) -> &str;

    /// Returns a word that identifies everything outside this program on which the results depend. Rows
    /// contain the word after the commit. A sweep's journal contains it, too, and refuses runs with another
    /// word.
    fn version(&self) -> &str;

    /// Checks once, before many runs, whether the engine works at all.
    ///
    /// # Errors
    /// Fails with the reason in one line. Every run would fail for the same reason.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs one order and writes measurements into `row`.
    ///
    /// # Errors
    /// Fails with the reason in one line if the run did not end as expected. Measurements until then remain
    /// in `row`.
    fn run(&self, order: &Order<'_>, row: &mut Row) -> Result<(), String>;
}

/// One run of an external stack.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// The stack.
    pub external: &'a External,
    /// The paths in use; the first one carries the handshake.
    pub paths: Vec<&'a PathDesign>,
    /// Work of the applications.
    pub workload: &'a Workload,
    /// Congestion controller of the connections that compete with this one. If it is `None`, they use this
    /// connection's controller.
    pub others_congestion: Option<Congestion>,
    /// Simulated time after which the run has failed.
    pub deadline: Duration,
    /// Seed of all randomness in the run.
    pub seed: u64,
}

impl RunOptions {
    /// Returns the engine of this name; `None` if the options do not contain it.
    pub fn engine(&self, name: &str) -> Option<&dyn Engine> {
        self.engines.iter().map(AsRef::as_ref).find(|engine| engine.name() == name)
    }
}

/// Runs a job of an external stack.
pub(super) fn run(experiment: &Experiment, job: Job, options: &RunOptions, external: &External) -> Finished {
    let point = &experiment.points[job.point];
    let paths = experiment.variants[job.variant].paths(point.paths.len());
    let mut row = super::named(experiment, job, options);
    row.wire = external.family();
    let result = match options.engine(&external.engine) {
        None => Err(format!("this program has no engine `{}` for {external}", external.engine)),
        Some(engine) => {
            row.commit = format!("{}+{}", options.commit, engine.version());
            let order = Order {
                external,
                paths: paths.iter().map(|path| &point.paths[*path]).collect(),
                workload: &experiment.workload,
                others_congestion: experiment.variants[job.variant].settings.others_congestion,
                deadline: experiment.deadline,
                seed: experiment.seed(job),
            };
            engine.run(&order, &mut row)
        }
    };
    row.failure = result.err().unwrap_or_default();
    Finished { row, timeline: Timeline::default(), paths }
}

#[cfg(test)]
mod tests;
