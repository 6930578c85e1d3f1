//! Journal of a sweep. The first line is a header. The other lines are of three kinds. There is one for each
//! finished run, in order of completion, one for each different set of requested runs, and one for each
//! further version of the program that added runs.

use core::fmt::Debug;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::SweepError;
use super::manifest::Manifest;
use crate::experiment::{Experiment, Job};
use crate::record::{Row, Timeline};
use crate::run::{Finished, RunOptions};
use crate::store::StoreError;

/// File name of the journal.
pub(super) const NAME: &str = "journal.jsonl";

/// Header of a journal. Runs of different headers cannot be combined. The number of repetitions is not part
/// of the header, because more repetitions leave the existing ones unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    experiment: String,
    workload: String,
    /// Deadline of a run in simulated milliseconds.
    deadline_ms: u64,
    /// Fingerprint of the points of the experiment.
    points: String,
    /// Fingerprint of the variants.
    variants: String,
    #[serde(flatten)]
    version: Version,
}

/// Version of the program and of the engines outside it. Runs of different versions are combined only on
/// explicit request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    commit: String,
    /// Hash of the sources; old journals have none.
    #[serde(default)]
    sources: String,
    /// Version of each engine whose stacks are among the requested variants. A journal without such variants
    /// does not name any engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    engines: BTreeMap<String, String>,
}

/// Line of the journal which records that another version has added runs, too.
#[derive(Serialize, Deserialize)]
struct Mixed<V> {
    version: V,
}

/// Start of a line that states another version.
const MIXED: &[u8] = b"{\"version\":";

/// Line that states the requested runs.
#[derive(Serialize, Deserialize)]
struct Ask<A> {
    asked: A,
}

/// Start of a line that states the requested runs.
const ASK: &[u8] = b"{\"asked\":";

/// Line of a finished run.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// Indices of the variant and the point, and number of the repetition.
    job: (usize, usize, u32),
    paths: Vec<usize>,
    row: Row,
    timeline: Timeline,
}

/// A finished run without its timeline, which is large and stays in the journal.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) paths: Vec<usize>,
    pub(super) row: Row,
    /// Offset and length of its line in the journal.
    at: (u64, usize),
}

/// An open journal file.
pub(super) struct Journal {
    name: PathBuf,
    file: File,
    /// Offset of the next line.
    end: Mutex<u64>,
}

impl Header {
    /// Returns the header for runs of the variants with the indices `variants`.
    pub(super) fn of(experiment: &Experiment, options: &RunOptions, variants: &[usize]) -> Self {
        Self {
            experiment: experiment.name.clone(),
            workload: experiment.workload.to_string(),
            deadline_ms: experiment.deadline.as_millis() as u64,
            points: fingerprint(&experiment.points),
            variants: fingerprint(&experiment.variants),
            version: Version {
                commit: options.commit.clone(),
                sources: options.sources.clone(),
                engines: engines(experiment, options, variants),
            },
        }
    }

    /// Adds the engines of `version` that the header does not name yet.
    pub(super) fn name_engines(&mut self, version: &Version) {
        for (name, version) in &version.engines {
            self.version.engines.entry(name.clone()).or_insert_with(|| version.clone());
        }
    }

    /// Describes for a human reader how the header differs from `wanted`.
    pub(super) fn differences(&self, wanted: &Self) -> String {
        let seconds = |ms: u64| format!("{} s", ms as f64 / 1e3);
        let all = [
            ("experiment", self.experiment.clone(), wanted.experiment.clone()),
            ("workload", self.workload.clone(), wanted.workload.clone()),
            ("deadline", seconds(self.deadline_ms), seconds(wanted.deadline_ms)),
            ("points with fingerprint", self.points.clone(), wanted.points.clone()),
            ("variants with fingerprint", self.variants.clone(), wanted.variants.clone()),
        ];
        let different = all.into_iter().filter(|(_, found, wanted)| found != wanted);
        let said = different.map(|(what, found, wanted)| format!("{what} {found} instead of {wanted}"));
        said.chain(self.version.difference(&wanted.version)).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the versions of the engines that run these variants. Engines that the options do not contain are
/// left out.
fn engines(experiment: &Experiment, options: &RunOptions, variants: &[usize]) -> BTreeMap<String, String> {
    let externals = variants.iter().filter_map(|index| experiment.variants.get(*index)?.external());
    let ready = externals.filter_map(|external| options.engine(&external.engine));
    ready.map(|engine| (engine.name().to_owned(), engine.version().to_owned())).collect()
}

impl Version {
    /// Returns true if the program and all engines of `other` are those of this version.
    fn includes(&self, other: &Self) -> bool {
        let is_known = |(name, version): (&String, &String)| self.engines.get(name) == Some(version);
        self.commit == other.commit && self.sources == other.sources && other.engines.iter().all(is_known)
    }

    /// Describes for a human reader how the version differs from `wanted`; `None` if it does not. An engine
    /// that only one of the two versions names makes no difference, because the other version has no runs of
    /// this engine.
    fn difference(&self, wanted: &Self) -> Option<String> {
        let (what, found, wanted) = if self.commit != wanted.commit {
            ("commit", &self.commit, &wanted.commit)
        } else if self.sources != wanted.sources {
            ("sources with hash", &self.sources, &wanted.sources)
        } else {
            let mut both =
                self.engines.iter().filter_map(|(name, found)| Some((found, wanted.engines.get(name)?)));
            let (found, wanted) = both.find(|(found, wanted)| found != wanted)?;
            ("engine version", found, wanted)
        };
        let found_or_none = if found.is_empty() { "unknown" } else { found };
        Some(format!("{what} {found_or_none} instead of {wanted}"))
    }
}

fn fingerprint(of: &impl Debug) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("{of:?}").as_bytes());
    format!("{:016x}", hasher.finish())
}

impl Journal {
    /// Opens the journal of a directory, or creates it, and reads its contents. An incomplete last line, as
    /// left by a killed process or a full disk, is removed.
    ///
    /// # Errors
    /// Fails if the journal has another header, if it has another version and `force` is not set, or if it
    /// cannot be read or written.
    pub(super) fn open(dir: &Path, header: &Header, force: bool) -> Result<(Self, Found), SweepError> {
        let name = dir.join(NAME);
        let fault = |error: io::Error| StoreError::new(&name, error);
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&name);
        let file = options.map_err(fault)?;
        let found = read(&name, &file)?;
        if let Some(found) = &found {
            found.must_be_of(header, force, dir)?;
        }
        let is_new = found.is_none();
        let mut found = found.unwrap_or_else(|| Found::empty(header.clone()));
        file.set_len(found.end).map_err(fault)?;
        let journal = Self { name, file, end: Mutex::new(found.end) };
        if is_new {
            journal.write(&line(header)?)?;
        } else if !found.versions().any(|version| version.includes(&header.version)) {
            journal.mix(&header.version)?;
            found.mixed.push(header.version.clone());
        }
        Ok((journal, found))
    }

    /// Reads the journal of a directory without changing it.
    pub(super) fn look(dir: &Path) -> Result<(Self, Found), SweepError> {
        let name = dir.join(NAME);
        let file = File::open(&name).map_err(|error| StoreError::new(&name, error))?;
        let found = read(&name, &file)?.ok_or_else(|| StoreError::new(&name, "is empty"))?;
        Ok((Self { name, file, end: Mutex::new(found.end) }, found))
    }

    /// Returns whether a directory has a journal.
    pub(super) fn is_in(dir: &Path) -> bool {
        dir.join(NAME).exists()
    }

    /// Appends the requested runs.
    pub(super) fn ask(&self, asked: &Manifest) -> Result<(), SweepError> {
        self.write(&line(&Ask { asked })?).map(drop)
    }

    /// Appends another version that adds runs.
    pub(super) fn mix(&self, version: &Version) -> Result<(), SweepError> {
        self.write(&line(&Mixed { version })?).map(drop)
    }

    /// Appends a run and returns it in the form in which the journal is read.
    pub(super) fn append(&self, job: Job, finished: Finished) -> Result<Done, SweepError> {
        let Finished { row, timeline, paths } = finished;
        let job = (job.variant, job.point, job.repetition);
        self.append_line(&line(&Entry { job, paths, row, timeline })?)
    }

    /// Appends a run from another journal.
    pub(super) fn copy(&self, from: &Self, run: &Done) -> Result<Done, SweepError> {
        let line = from.line(run).map_err(|error| StoreError::new(&from.name, error))?;
        self.append_line(&line)
    }

    /// Reads the timeline of a run.
    pub(super) fn timeline(&self, run: &Done) -> io::Result<Timeline> {
        Ok(serde_json::from_slice::<Entry>(&self.line(run)?)?.timeline)
    }

    fn line(&self, run: &Done) -> io::Result<Vec<u8>> {
        let mut line = vec![0; run.at.1];
        self.file.read_exact_at(&mut line, run.at.0)?;
        Ok(line)
    }

    fn append_line(&self, line: &[u8]) -> Result<Done, SweepError> {
        let at = self.write(line)?;
        let done = parse(line, at).map_err(|error| StoreError::new(&self.name, error))?;
        Ok(done)
    }

    /// Appends a line and returns its offset. A partly written line is removed again.
    fn write(&self, line: &[u8]) -> Result<u64, SweepError> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.file.write_all_at(line, *end) {
            let _ = self.file.set_len(*end);
            return Err(StoreError::new(&self.name, error).into());
        }
        let at = *end;
        *end += line.len() as u64;
        Ok(at)
    }
}

/// Contents of a journal, up to the last complete line.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Further versions that added runs.
    mixed: Vec<Version>,
    pub(super) asked: Vec<Manifest>,
    pub(super) done: Vec<Done>,
    /// Number of bytes of complete lines.
    end: u64,
}

impl Found {
    fn empty(header: Header) -> Self {
        Self { header, mixed: Vec::new(), asked: Vec::new(), done: Vec::new(), end: 0 }
    }

    /// Returns the versions of the journal's runs.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        core::iter::once(&self.header.version).chain(&self.mixed)
    }

    /// Fails if this journal, found in `dir`, has another header, or if it has another version and `force` is
    /// not set.
    pub(super) fn must_be_of(&self, wanted: &Header, force: bool, dir: &Path) -> Result<(), SweepError> {
        let same = Header { version: wanted.version.clone(), ..self.header.clone() };
        if same != *wanted {
            return Err(SweepError::Other {
                dir: dir.to_owned(),
                differences: self.header.differences(wanted),
            });
        }
        // All runs of an engine must be of the same version, even if `wanted` does not name this engine.
        let mut known = wanted.clone();
        for version in self.versions().filter(|_| !force) {
            if let Some(differences) = version.difference(&known.version) {
                return Err(SweepError::OtherVersion { dir: dir.to_owned(), differences });
            }
            known.name_engines(version);
        }
        Ok(())
    }
}

/// Reads a journal; `None` if it does not even have a complete first line.
fn read(name: &Path, file: &File) -> Result<Option<Found>, SweepError> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut found: Option<Found> = None;
    for number in 1.. {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(|error| StoreError::new(name, error))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let fault = |error| StoreError::new(name, format!("line {number}: {error}"));
        match &mut found {
            None => {
                let header = serde_json::from_slice(&line);
                let header = header.map_err(|error| {
                    StoreError::new(name, format!("no journal of this version of the program: {error}"))
                })?;
                found = Some(Found { end: line.len() as u64, ..Found::empty(header) });
            }
            Some(found) => {
                if line.starts_with(ASK) {
                    found.asked.push(serde_json::from_slice::<Ask<Manifest>>(&line).map_err(fault)?.asked);
                } else if line.starts_with(MIXED) {
                    found.mixed.push(serde_json::from_slice::<Mixed<Version>>(&line).map_err(fault)?.version);
                } else {
                    found.done.push(parse(&line, found.end).map_err(fault)?);
                }
                found.end += line.len() as u64;
            }
        }
    }
    Ok(found)
}

fn parse(line: &[u8], at: u64) -> serde_json::Result<Done> {
    let Entry { job: (variant, point, repetition), paths, row, .. } = serde_json::from_slice(line)?;
    Ok(Done { job: Job { variant, point, repetition }, paths, row, at: (at, line.len()) })
}

fn line(of: &impl Serialize) -> Result<Vec<u8>, SweepError> {
    let mut line = Vec::new();
    let written = serde_json::to_writer(&mut line, of).map_err(io::Error::from);
    written.and_then(|()| line.write_all(b"\n")).map_err(|error| StoreError::new(Path::new(NAME), error))?;
    Ok(line)
}
