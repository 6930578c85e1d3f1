//! Access to the served directory, and to nothing outside it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, OpenOptions, OpenOptionsExt};
use nix::libc;

/// Maximum number of entries of a directory that are listed.
pub(super) const MAX_LISTED: usize = 10_000;

/// An open directory.
#[derive(Debug)]
pub(super) struct Root(Dir);

/// File or folder at a path. Pipes, sockets and devices count as not found.
pub(super) enum Found {
    File(File),
    Directory,
}

/// One line of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: OsString,
    /// Length of a file; `None` for a directory.
    pub(super) size: Option<u64>,
    pub(super) modified: Option<SystemTime>,
}

/// The entries of a directory.
pub(super) struct Entries {
    /// Directories first; within each kind ordered by name.
    pub(super) entries: Vec<Entry>,
    /// `true` if the directory has more entries than the limit.
    pub(super) more: bool,
}

impl Root {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(directory, ambient_authority()).map(Self)
    }

    /// Finds the file or directory at `path`. Other kinds are not opened: a pipe would block until its other
    /// end opens, and a device may have side effects.
    pub(super) fn find(&self, path: &Path) -> io::Result<Found> {
        let seen = self.0.metadata(path)?;
        if seen.is_dir() {
            return Ok(Found::Directory);
        }
        if !seen.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        // The name may refer to another file by now.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self.0.open_with(path, &options)?.into_std();
        if file.metadata()?.is_file() { Ok(Found::File(file)) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Lists the entries of a directory that can be requested. Dangling links, links that lead outside and
    /// devices are omitted.
    pub(super) fn list(&self, path: &Path) -> io::Result<Entries> {
        let directory = self.0.open_dir(path)?;
        let mut found = directory.entries()?;
        let looked_at = found.by_ref().take(MAX_LISTED);
        let mut entries: Vec<_> = looked_at.filter_map(|entry| describe(&directory, &entry.ok()?)).collect();
        let more = found.next().is_some();
        entries.sort_by(|a, b| (a.size.is_some(), &a.name).cmp(&(b.size.is_some(), &b.name)));
        Ok(Entries { entries, more })
    }
}

fn describe(directory: &Dir, entry: &DirEntry) -> Option<Entry> {
    let name = entry.file_name();
    // For a link, this is the metadata of its target.
    let seen = directory.metadata(&name).ok().filter(|seen| seen.is_dir() || seen.is_file())?;
    let size = seen.is_file().then_some(seen.len());
    Some(Entry { name, size, modified: seen.modified().ok().map(cap_std::time::SystemTime::into_std) })
}
