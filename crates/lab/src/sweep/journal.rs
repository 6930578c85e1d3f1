//! The journal: what it is of in the first line, then a line for each finished run, in whatever order they finish.

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::SweepError;
use crate::experiment::{Experiment, Job};
use crate::record::{Row, Timeline};
use crate::run::Finished;
use crate::store::StoreError;

/// Its name.
pub(super) const NAME: &str = "journal.jsonl";

/// What a journal is of. Runs of different headers do not go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    experiment: String,
    /// Fingerprint of points, variants and workload.
    plan: String,
    commit: String,
    /// Runs in all.
    pub(super) runs: usize,
}

/// A line of the journal.
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
    /// Where its line begins, and how long it is.
    at: (u64, usize),
}

/// An open journal.
pub(super) struct Journal {
    name: PathBuf,
    file: File,
    /// Where the next line goes.
    end: Mutex<u64>,
}

impl Header {
    pub(super) fn of(experiment: &Experiment, commit: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(format!("{experiment:?}").as_bytes());
        Self {
            experiment: experiment.name.clone(),
            plan: format!("{:016x}", hasher.finish()),
            commit: commit.to_owned(),
            runs: experiment.jobs().count(),
        }
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let Self { experiment, plan, commit, .. } = self;
        format!("{experiment} (plan {plan}, commit {commit})")
    }
}

impl Journal {
    /// Opens or begins the journal of a directory and reads what is done. A last line that is not whole, as a killed process
    /// or a full disk leaves it, is cut off.
    pub(super) fn open(dir: &Path, header: &Header) -> Result<(Self, Vec<Done>), SweepError> {
        let name = dir.join(NAME);
        let fault = |error: io::Error| StoreError::new(&name, error);
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&name);
        let file = options.map_err(fault)?;
        let found = read(&name, &file)?;
        let mut done = Vec::new();
        let mut end = 0;
        if let Some(found) = found {
            if found.header != *header {
                let (found, wanted) = (found.header.describe(), header.describe());
                return Err(SweepError::Other { dir: dir.to_owned(), found, wanted });
            }
            (done, end) = (found.done, found.end);
        }
        file.set_len(end).map_err(fault)?;
        let journal = Self { name, file, end: Mutex::new(end) };
        if end == 0 {
            journal.write(&line(header)?)?;
        }
        Ok((journal, done))
    }

    /// What the journal of a directory says, which is left as it is.
    pub(super) fn look(dir: &Path) -> Result<(Self, Header, Vec<Done>), SweepError> {
        let name = dir.join(NAME);
        let file = File::open(&name).map_err(|error| StoreError::new(&name, error))?;
        let found = read(&name, &file)?.ok_or_else(|| StoreError::new(&name, "is empty"))?;
        Ok((Self { name, file, end: Mutex::new(found.end) }, found.header, found.done))
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

    /// What a run did over time.
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

/// What a journal holds as far as it is whole.
struct Found {
    header: Header,
    done: Vec<Done>,
    /// Bytes of whole lines.
    end: u64,
}

/// `None` if there is not even a first line.
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
                let header = serde_json::from_slice(&line).map_err(fault)?;
                found = Some(Found { header, done: Vec::new(), end: line.len() as u64 });
            }
            Some(found) => {
                found.done.push(parse(&line, found.end).map_err(fault)?);
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
