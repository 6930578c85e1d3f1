//! Merging of the results of several directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::journal::{Found, Journal, Version};
use super::manifest::{Manifest, Missing};
use super::{SweepError, finish, lock};
use crate::experiment::Job;
use crate::record::Row;

/// Result of a merge.
#[derive(Clone, Debug)]
pub struct Merged {
    /// All rows, in the order of jobs.
    pub rows: Vec<Row>,
    /// Requested runs that none of the directories contains.
    pub missing: Missing,
}

/// Adds the runs of `dirs` to those in `out` and writes the results. All must belong to the same experiment
/// and, unless `force` is set, to the same version. If two directories contain a run, it is used once,
/// because both copies are equal. Requested runs, including those of shards that are in none of the
/// directories, may be missing only if `partial` is set.
///
/// # Errors
/// Fails if a directory has no journal or one of another experiment, if runs are missing, or if a file cannot
/// be read or written. Except in the last case, nothing has been written.
pub fn merge(dirs: &[PathBuf], out: &Path, partial: bool, force: bool) -> Result<Merged, SweepError> {
    let parts = dirs.iter().map(|dir| Journal::look(dir)).collect::<Result<Vec<_>, _>>()?;
    let Some((_, first)) = parts.first() else {
        return Ok(Merged { rows: Vec::new(), missing: Missing::default() });
    };
    let before = if Journal::is_in(out) { Some(Journal::look(out)?.1) } else { None };
    // If the first directory has no runs of an engine, the header gets the engine's version from the first
    // directory that has some.
    let mut header = first.header.clone();
    let places = parts.iter().map(|(_, part)| part).zip(dirs.iter().map(PathBuf::as_path));
    for (part, dir) in places.chain(before.as_ref().map(|before| (before, out))) {
        part.must_be_of(&header, force, dir)?;
        part.versions().for_each(|version| header.name_engines(version));
    }
    let all = || before.iter().chain(parts.iter().map(|(_, part)| part));
    let missing = missing(all());
    if missing.runs > 0 && !partial {
        return Err(SweepError::Incomplete(missing));
    }

    let _lock = lock(out)?;
    let (journal, found) = Journal::open(out, &first.header, force)?;
    let mut versions: Vec<Version> = found.versions().cloned().collect();
    let Found { asked, mut done, .. } = found;
    for version in parts.iter().flat_map(|(_, part)| part.versions()) {
        if !versions.contains(version) {
            journal.mix(version)?;
            versions.push(version.clone());
        }
    }
    let mut asked: BTreeSet<Manifest> = asked.into_iter().collect();
    let mut there: BTreeSet<Job> = done.iter().map(|run| run.job).collect();
    for (from, part) in &parts {
        for one in &part.asked {
            if asked.insert(one.clone()) {
                journal.ask(one)?;
            }
        }
        for run in &part.done {
            if there.insert(run.job) {
                done.push(journal.copy(from, run)?);
            }
        }
    }
    Ok(Merged { missing, rows: finish(out, &journal, done)? })
}

fn missing<'a>(parts: impl Iterator<Item = &'a Found> + Clone) -> Missing {
    let done = parts.clone().flat_map(|part| &part.done);
    let there = done.clone().map(|run| run.job).collect();
    let names: BTreeMap<usize, &str> = done.map(|run| (run.job.variant, run.row.variant.as_str())).collect();
    // The name of a variant is known only from its runs.
    let name =
        |variant| names.get(&variant).map_or_else(|| format!("variant {variant}"), |&name| name.to_owned());
    Missing::of(parts.flat_map(|part| &part.asked), &there, name)
}
