//! The journal: what it is of in the first line, then a line for each finished run, in whatever order they
//! finish, one for each different thing that was asked for, and one for each further version of the program
//! that added to it.

use core::fmt::Debug;
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

/// Its name.
pub(super) const NAME: &str = "journal.jsonl";

/// Subject of a journal. Runs of different headers do not go together. The number of repetitions is no part
/// of it: more of them leave the others as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    experiment: String,
    workload: String,
    /// Simulated.
    deadline_ms: u64,
    /// Fingerprint.
    points: String,
    /// Fingerprint.
    variants: String,
    #[serde(flatten)]
    version: Version,
}

/// Sources from which a program is built. Runs of different versions only go together on explicit request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    commit: String,
    /// Hash of the sources; journals of old have none.
    #[serde(default)]
    sources: String,
}

/// A line of another version that added runs.
#[derive(Serialize, Deserialize)]
struct Mixed<V> {
    version: V,
}

/// Beginning of such a line.
const MIXED: &[u8] = b"{\"version\":";

/// A line of what was asked for.
#[derive(Serialize, Deserialize)]
struct Ask<A> {
    asked: A,
}

/// Beginning of such a line.
const ASK: &[u8] = b"{\"asked\":";

/// A line of a finished run.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// Variant, point, repetition.
    job: (usize, usize, u32),
    paths: Vec<usize>,
    row: Row,
    timeline: Timeline,
}

/// A finished run, with what takes much space left in the journal.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) paths: Vec<usize>,
    pub(super) row: Row,
    /// Offset and length of its line.
    at: (u64, usize),
}

/// An open journal.
pub(super) struct Journal {
    name: PathBuf,
    file: File,
    /// Offset of the next line.
    end: Mutex<u64>,
}

impl Header {
    pub(super) fn of(experiment: &Experiment, options: &RunOptions) -> Self {
        Self {
            experiment: experiment.name.clone(),
            workload: experiment.workload.to_string(),
            deadline_ms: experiment.deadline.as_millis() as u64,
            points: fingerprint(&experiment.points),
            variants: fingerprint(&experiment.variants),
            version: Version { commit: options.commit.clone(), sources: options.sources.clone() },
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

impl Version {
    /// Describes for a human reader how the version differs from `wanted`.
    fn difference(&self, wanted: &Self) -> Option<String> {
        let (what, found, wanted) = if self.commit != wanted.commit {
            ("commit", &self.commit, &wanted.commit)
        } else {
            ("sources with hash", &self.sources, &wanted.sources)
        };
        let found_or_none = if found.is_empty() { "unknown" } else { found };
        (found != wanted).then(|| format!("{what} {found_or_none} instead of {wanted}"))
    }
}

fn fingerprint(of: &impl Debug) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("{of:?}").as_bytes());
    format!("{:016x}", hasher.finish())
}

impl Journal {
    /// Opens or begins the journal of a directory and reads what is in it. A last line that is not whole, as
    /// a killed process or a full disk leaves it, is cut off.
    ///
    /// # Errors
    /// If it is of something else, or, but by `force`, of another version; if it cannot be read or written.
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
        } else if found.versions().all(|version| *version != header.version) {
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

    /// Writes down what was asked for.
    pub(super) fn ask(&self, asked: &Manifest) -> Result<(), SweepError> {
        self.write(&line(&Ask { asked })?).map(drop)
    }

    /// Writes down that another version adds runs.
    pub(super) fn mix(&self, version: &Version) -> Result<(), SweepError> {
        self.write(&line(&Mixed { version })?).map(drop)
    }

    /// Writes a run down. Gives it back as it is read again.
    pub(super) fn append(&self, job: Job, finished: Finished) -> Result<Done, SweepError> {
        let Finished { row, timeline, paths } = finished;
        let job = (job.variant, job.point, job.repetition);
        self.append_line(&line(&Entry { job, paths, row, timeline })?)
    }

    /// Writes down a run from another journal.
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

    /// Adds a line and tells where it begins. A line of which only a part was written is cut off again.
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

/// Contents of a journal, as far as its lines are whole.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Further versions that added runs.
    mixed: Vec<Version>,
    pub(super) asked: Vec<Manifest>,
    pub(super) done: Vec<Done>,
    /// Bytes of whole lines.
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

    /// Fails if this, found in `dir`, has runs of something else, or, but by `force`, of another version.
    pub(super) fn must_be_of(&self, wanted: &Header, force: bool, dir: &Path) -> Result<(), SweepError> {
        let same = Header { version: wanted.version.clone(), ..self.header.clone() };
        if same != *wanted {
            return Err(SweepError::Other {
                dir: dir.to_owned(),
                differences: self.header.differences(wanted),
            });
        }
        let other = self.versions().find_map(|version| version.difference(&wanted.version));
        match other.filter(|_| !force) {
            Some(differences) => Err(SweepError::OtherVersion { dir: dir.to_owned(), differences }),
            None => Ok(()),
        }
    }
}

/// Reads a journal; `None` if there is not even a first line.
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
