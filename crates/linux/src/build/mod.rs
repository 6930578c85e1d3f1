//! Build of the kernel, from Debian's source package to a program in the cache.
//!
//! Every completed step leaves a stamp file, so that an interrupted build continues with the first incomplete
//! step. Nothing is built inside the repository, and the user's source remains unchanged: the build unpacks
//! or copies it first.

mod source;
mod steps;
mod tools;

use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

pub use source::{Source, SourceError};

/// Our configuration and patch of the kernel, GPL-2.0 (`kernel/README.md`).
const CONFIG: &str = include_str!("../../kernel/lab.config");
const PATCH: &str = include_str!("../../kernel/lab.patch");
/// Kernel series for which the patch is made. Only results of one series are comparable.
const SERIES: &str = "6.12";
/// Debian's package with the kernel's source.
const PACKAGE: &str = "linux-source-6.12";

/// Folder of built kernels, usually within `anabranch/linux` in the user's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// A kernel that has been built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// File of the kernel's program.
    pub program: PathBuf,
    /// Version of the kernel, with a hash of our configuration and patch, for example `6.12.117-1a2b3c4d`.
    pub version: String,
}

/// Receiver of a build's progress.
pub trait Watch {
    /// Reports that a step begins.
    fn step(&self, what: &str);
    /// Reports that about `done` of `of` files are compiled.
    fn compiled(&self, done: usize, of: usize);
}

/// Reason that the kernel cannot be built, formatted in one line.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs that the build needs are missing.
    #[error("missing: {missing}; on Debian: apt-get install {packages}")]
    Tools {
        /// Names of the programs.
        missing: String,
        /// Names of the Debian packages that contain the missing programs.
        packages: String,
    },
    /// The source does not exist, is invalid or has another version.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A step failed.
    #[error("{step} failed: {last}; all of its output is in {log}", log = log.display())]
    Step {
        /// Name of the step.
        step: &'static str,
        /// Last line of the step's output that mentions an error, or the first non-empty line.
        last: String,
        /// File with the step's output.
        log: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        error: io::Error,
    },
    /// Another process is building in this folder.
    #[error("{}: another process is building there", .0.display())]
    InUse(PathBuf),
}

impl BuildError {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

impl Cache {
    /// Returns the user's cache: `$XDG_CACHE_HOME`, or `~/.cache`. `None` if neither is known.
    pub fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        Some(Self::at(&cache.join("anabranch").join("linux")))
    }

    /// Returns the cache in the folder `dir`.
    pub fn at(dir: &Path) -> Self {
        // Each combination of configuration and patch has a folder of its own.
        Self { dir: dir.join(recipe()) }
    }

    /// Returns the folder of this configuration and patch.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the kernel that was built here, if there is one.
    pub fn kernel(&self) -> Option<Kernel> {
        let program = self.dir.join(steps::PROGRAM);
        let version = fs::read_to_string(self.dir.join(steps::VERSION)).ok()?;
        let version = version.trim();
        let is_version = version.len() < 64 && version.starts_with(SERIES);
        (is_version && program.is_file())
            .then(|| Kernel { program, version: format!("{version}-{}", &recipe()[..8]) })
    }

    /// Builds the kernel from `source`, or continues a build that was interrupted.
    ///
    /// # Errors
    /// Fails if a tool or the source is missing, the source has another version, or a step fails.
    pub fn build(&self, source: &Source, watch: &dyn Watch) -> Result<Kernel, BuildError> {
        if let Some(kernel) = self.kernel() {
            return Ok(kernel);
        }
        tools::check()?;
        fs::create_dir_all(&self.dir).map_err(|error| BuildError::file(&self.dir, error))?;
        let name = self.dir.join("lock");
        let lock = fs::File::create(&name).map_err(|error| BuildError::file(&name, error))?;
        if matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            return Err(BuildError::InUse(self.dir.clone()));
        }
        steps::all(&self.dir, source, watch)?;
        self.kernel().ok_or_else(|| BuildError::file(&self.dir, io::ErrorKind::NotFound.into()))
    }
}

/// Returns a name for our configuration and patch: their hash.
fn recipe() -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(CONFIG.as_bytes());
    hasher.write(PATCH.as_bytes());
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests;
