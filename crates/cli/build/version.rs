//! Version of all code that a run of the lab depends on. Two builds of the same commit may differ by
//! uncommitted changes, or git may be missing; a hash of the sources distinguishes them.

use std::collections::BTreeSet;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::Command;

use siphasher::sip::SipHasher13;

/// Crates whose code determines the results of runs. They and their dependencies in the workspace are hashed.
const ROOTS: [&str; 2] = ["lab", "linux"];
/// Prefix of the names of the workspace's crates.
const PREFIX: &str = "anabranch-";
/// Folders of a crate that are not part of any program.
const ASIDE: &[&str] = &["tests", "benches", "examples", "target"];
/// Files of the workspace that affect every build.
const SHARED: &[&str] = &["Cargo.lock", "Cargo.toml"];

/// Version of the sources that a program is built from.
#[derive(Debug)]
pub(crate) struct Version {
    /// The commit. The hash of the sources is added if they differ from the commit or the commit is unknown.
    pub(crate) commit: String,
    /// Hash of the sources, as 16 hexadecimal digits.
    pub(crate) sources: String,
    /// Files and folders on which the version depends.
    pub(crate) watched: Vec<PathBuf>,
}

/// Returns the version of the workspace in `root`; `git` is the command that reports the commit.
pub(crate) fn of(root: &Path, git: &str) -> Version {
    let mut watched: Vec<PathBuf> = SHARED.iter().map(|name| root.join(name)).collect();
    watched.extend(crates(root).iter().flat_map(|name| parts(&root.join("crates").join(name))));
    let sources = hash(root, &watched);
    let ask = |arguments: &[&str]| answer(git, root, arguments);
    let commit = match ask(&["rev-parse", "--short=12", "HEAD"]) {
        None => format!("unknown-{sources}"),
        Some(commit) => {
            let names = watched.iter().filter_map(|path| path.strip_prefix(root).ok()?.to_str());
            let status: Vec<&str> = ["status", "--porcelain", "--"].into_iter().chain(names).collect();
            match ask(&status) {
                Some(changes) if changes.is_empty() => commit,
                _ => format!("{commit}-dirty-{sources}"),
            }
        }
    };
    // The log of HEAD grows with each commit, so Cargo runs the build script again after a commit.
    let log = ask(&["rev-parse", "--git-path", "logs/HEAD"]);
    watched.extend(log.map(|log| root.join(log)));
    Version { commit, sources, watched }
}

/// Returns the folder names of the workspace's crates that results depend on.
fn crates(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = Vec::from(ROOTS.map(str::to_owned));
    while let Some(name) = next.pop() {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(manifest) else { continue };
        if found.insert(name) {
            let used = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
            let used = used.take_while(|line| !line.starts_with('['));
            let names = used.filter_map(|line| line.strip_prefix(PREFIX)?.split(['.', ' ', '=']).next());
            next.extend(names.map(str::to_owned));
        }
    }
    found
}

/// Returns the files and folders that a crate is built from.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        !name.starts_with('.') && !ASIDE.contains(&name.as_str())
    });
    let mut parts: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    parts.sort();
    parts
}

/// Hashes the names and contents of all files in `parts`.
fn hash(root: &Path, parts: &[PathBuf]) -> String {
    let mut hasher = SipHasher13::new();
    for file in parts.iter().flat_map(|part| files(part)) {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        for bytes in [name.into_bytes(), fs::read(&file).unwrap_or_default()] {
            hasher.write_usize(bytes.len());
            hasher.write(&bytes);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Returns the files and subfolders of a folder in a fixed order; for a file, the file itself.
fn files(part: &Path) -> Vec<PathBuf> {
    if !part.is_dir() {
        return if part.is_file() { vec![part.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(part).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

/// Returns git's output, which may be empty; `None` without git or outside of a clone.
fn answer(git: &str, root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(git).arg("-C").arg(root).args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).ok())
        .flatten()
        .map(|text| text.trim().to_owned())
}
