//! Experiments: a workload, the networks over which it runs, and the variants that are compared. Each
//! built-in experiment is defined in a file of this folder; users write their own as a [`plan`](crate::plan).
//! To add a built-in experiment, write its file and name it in `registry!`.

#[cfg(test)]
mod tests;
mod variant;

use core::fmt;
use core::time::Duration;
use std::path::Path;

use anabranch_transport::recovery::Algorithm as Congestion;

use crate::design::{self, DesignError, Point};
use crate::profile::{UnknownLayer, Variant, Wire};

pub use compare::COMPARE;
pub use variant::variant;

/// Maximum number of repetitions of an experiment.
pub const MAX_REPETITIONS: u32 = 10_000;

/// Points × variants × repetitions of one workload.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name on the command line and in results.
    pub name: String,
    /// Description of the experiment and of the source of its points, in one line.
    pub about: String,
    /// Work of the applications.
    pub workload: Workload,
    /// Networks over which the workload runs.
    pub points: Vec<Point>,
    /// Configurations of the stack.
    pub variants: Vec<Variant>,
    /// Number of variants at the beginning of `variants` that run if none is requested by name.
    pub usual: usize,
    /// Number of runs of each variant at each point, each with another seed.
    pub repetitions: u32,
    /// Simulated time after which a run has failed.
    pub deadline: Duration,
}

/// Work of the applications in a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The client requests `bytes` bytes on one stream. `until` defines the end of the run.
    Download {
        /// Size of the answer in bytes.
        bytes: u64,
        /// Instant that counts as the end.
        until: End,
    },
    /// The client sends `bytes` bytes on one stream. The run ends when the server has received the last one.
    /// In its row, the columns about the server's data describe the client's data. The columns about the
    /// client's acknowledgments describe the server's acknowledgments.
    Upload {
        /// Number of bytes of the stream.
        bytes: u64,
    },
    /// The client sends small requests at fixed intervals, regardless of outstanding answers.
    Requests {
        /// Number of bytes of each request.
        request: u64,
        /// Number of bytes of each answer.
        answer: u64,
        /// Time from one request to the next.
        every: Duration,
        /// Number of requests.
        count: u32,
    },
    /// The client downloads while `others` connections of other clients share the first link with it. The
    /// other clients have the same configuration, but use a single path. Their congestion controller is
    /// `others_congestion` if that is set.
    Competition {
        /// Number of connections of other clients.
        others: u32,
        /// Time for which all connections send.
        length: Duration,
        /// `true` if all paths of the client share the first link; the links of its other paths then do not
        /// exist.
        one_link: bool,
    },
}

/// The end of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has received the last byte, as in the 2017 study.
    LastByte,
    /// The client has received the server's answer to its CONNECTION_CLOSE, as in the 2022 study.
    Closed,
}

/// One run of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    /// Index of the variant.
    pub variant: usize,
    /// Index of the point.
    pub point: usize,
    /// Repetition, from 0 on.
    pub repetition: u32,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Download { bytes, until: End::LastByte } => write!(f, "download of {bytes} bytes"),
            Self::Download { bytes, until: End::Closed } => {
                write!(f, "download of {bytes} bytes and a closing packet")
            }
            Self::Upload { bytes } => write!(f, "upload of {bytes} bytes"),
            Self::Requests { request, answer, every, count } => {
                let every = every.as_millis();
                write!(f, "{count} requests of {request} bytes, one each {every} ms, for {answer} bytes")
            }
            Self::Competition { others, length, one_link } => {
                let over = if *one_link { " over one link" } else { "" };
                write!(f, "competition with {others} others{over} for {} s", length.as_secs_f64())
            }
        }
    }
}

/// Value of [`Experiment::usual`] with which all variants run if none is requested by name.
pub const ALL_VARIANTS: usize = usize::MAX;

impl Experiment {
    /// Returns the variants that run if none is requested by name.
    pub fn usual_variants(&self) -> &[Variant] {
        &self.variants[..self.usual.min(self.variants.len())]
    }

    /// Returns the variants that cannot run here, each with the names of the missing programs of its guests.
    pub fn missing(&self) -> Vec<(&str, Vec<&str>)> {
        let guests =
            self.variants.iter().filter_map(|variant| Some((variant, variant.settings.guest.as_ref()?)));
        let missing = guests.map(|(variant, guest)| (variant.name.as_str(), guest.missing()));
        missing.filter(|(_, programs)| !programs.is_empty()).collect()
    }

    /// Returns all runs of the experiment, in the order of their rows in the results.
    pub fn jobs(&self) -> impl Iterator<Item = Job> {
        let (points, repetitions) = (self.points.len(), self.repetitions);
        (0..self.variants.len()).flat_map(move |variant| {
            (0..points).flat_map(move |point| {
                (0..repetitions).map(move |repetition| Job { variant, point, repetition })
            })
        })
    }

    /// Returns the seed of a run. The seed is equal for all variants at a point, so that they meet the same
    /// losses. It differs for any two repetitions or points: the lowest 8 bits of a repetition stand below
    /// the 32 bits of a point, and the remaining bits above them.
    pub fn seed(&self, job: Job) -> u64 {
        let repetition = u64::from(job.repetition);
        repetition >> 8 << 40 | self.points[job.point].run << 8 | repetition & 0xff
    }

    /// Sets the wire image of packets in all variants.
    #[must_use]
    pub fn over_wire(mut self, wire: Wire) -> Self {
        self.variants.iter_mut().for_each(|variant| variant.settings.wire = Some(wire));
        self
    }

    /// Sets the congestion controller in all variants.
    pub fn under_congestion(mut self, congestion: Congestion) -> Self {
        self.variants.iter_mut().for_each(|variant| variant.settings.congestion = Some(congestion));
        self
    }

    /// Replaces the points by those of a CSV file.
    ///
    /// # Errors
    /// Fails like [`design::read`].
    pub fn with_design(self, file: &Path) -> Result<Self, DesignError> {
        let points = design::read(file)?;
        let about = self.about.split("; points: ").next().unwrap_or_default();
        Ok(Self { about: format!("{about}; points: {}", file.display()), points, ..self })
    }
}

/// Error that prevents an experiment from being created, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The experiment's name is unknown.
    #[error("unknown experiment `{}`: use one of {}", .name.escape_debug(), NAMES.join(", "))]
    Unknown {
        /// Unknown name.
        name: String,
    },
    /// The experiment's points cannot be read.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// One of the experiment's variants cannot be created.
    #[error(transparent)]
    Layer(#[from] UnknownLayer),
}

/// Source of an experiment's points. Experiments without published files ignore it and always have the same
/// points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source<'a> {
    /// The CSV files that the study published, in this folder.
    Published(&'a Path),
    /// The draw with this number, from 0 on: points generated by the study's method, each draw with a seed of
    /// its own.
    Drawn(u32),
}

/// Difference between the numbers of the first points of consecutive draws. A point's number is part of its
/// runs' seeds, so that the seeds of two draws differ, too.
const DRAW: u64 = 1000;

impl Source<'_> {
    /// Returns the number of the draw; 0 for published points.
    fn draw(self) -> u32 {
        match self {
            Self::Published(_) => 0,
            Self::Drawn(draw) => draw,
        }
    }

    /// Returns the number of the first point.
    fn first_point(self) -> u64 {
        u64::from(self.draw()) * DRAW
    }
}

/// Returns the experiment of this name. Its points are those of the published CSV file if `data`, the folder
/// with these files, is given. Otherwise they are generated by the same method. The experiment's `about`
/// states the source.
///
/// # Errors
/// Fails like [`over`].
pub fn named(name: &str, data: Option<&Path>) -> Result<Experiment, ExperimentError> {
    over(name, data.map_or(Source::Drawn(0), Source::Published))
}

/// Declares the experiments: the module of each, its name, and the function that creates it.
macro_rules! registry {
    ($($module:ident: $($name:literal => $build:ident),+;)+) => {
        $(mod $module;)+

        /// The experiments that [`named`] knows.
        pub const NAMES: &[&str] = &[$($($name),+),+];

        /// Returns the experiment of this name over the points of `source`.
        ///
        /// # Errors
        /// Fails if there is no such experiment, or if the published points cannot be read.
        pub fn over(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
            match name {
                $($($name => $module::$build($name, source),)+)+
                _ => Err(ExperimentError::Unknown { name: name.to_owned() }),
            }
        }
    };
}

registry! {
    ccr22:
        "ccr22-homogeneous-2path" => homogeneous_2path,
        "ccr22-heterogeneous-2path" => heterogeneous_2path,
        "ccr22-heterogeneous-3path" => heterogeneous_3path;
    conext17:
        "conext17-low-bdp-no-loss" => download,
        "conext17-low-bdp-losses" => download,
        "conext17-high-bdp-no-loss" => download,
        "conext17-high-bdp-losses" => download,
        "conext17-low-bdp-no-loss-256kb" => download,
        "conext17-low-bdp-losses-256kb" => download,
        "conext17-high-bdp-no-loss-256kb" => download,
        "conext17-high-bdp-losses-256kb" => download,
        "conext17-low-bdp-no-loss-scripts" => download,
        "conext17-low-bdp-losses-scripts" => download,
        "conext17-high-bdp-no-loss-scripts" => download,
        "conext17-high-bdp-losses-scripts" => download;
    compare:
        "compare-2path-50mb" => compare,
        "compare-3path-50mb" => compare,
        "compare-2path-2mb" => compare,
        "compare-3path-2mb" => compare,
        "compare-2path-256kb" => compare,
        "compare-3path-256kb" => compare;
    handover: "conext17-handover" => handover;
    fairness:
        "shared-bottleneck" => shared_bottleneck,
        "coupled-bottleneck" => coupled_bottleneck;
    mobility: "mobility" => mobility;
}
