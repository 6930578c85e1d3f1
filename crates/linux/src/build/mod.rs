//! The kernel's way from Debian's source package to a program in the cache.
//!
//! Every step leaves a stamp, and a build that was interrupted goes on where it was. Nothing is built inside
//! the repository, and no source is changed where the user has it: the tree is unpacked or copied first.

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
/// The series that the patch is for, and that results are compared within.
const SERIES: &str = "6.12";
/// Package of Debian with its source.
const PACKAGE: &str = "linux-source-6.12";

/// Place of kernels that were built: `anabranch/linux` in the user's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// A kernel that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The program.
    pub program: PathBuf,
    /// Its version and that of our configuration and patch: `6.12.117-1a2b3c4d`.
    pub version: String,
}

/// Is told how a build goes on.
pub trait Watch {
    /// Reports that a step begins.
    fn step(&self, what: &str);
    /// Reports that about `done` of `of` files are compiled.
    fn compiled(&self, done: usize, of: usize);
}

/// Reason that there is no kernel, in one line.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs that the build needs are missing.
    #[error("missing: {missing}; on Debian: apt-get install {packages}")]
    Tools {
        /// The programs.
        missing: String,
        /// Their packages in Debian.
        packages: String,
    },
    /// The source is not there or of another version.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A step failed.
    #[error("{step} failed: {last}; all of its output is in {log}", log = log.display())]
    Step {
        /// The step.
        step: &'static str,
        /// Its last line that says something.
        last: String,
        /// File with its output.
        log: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Somebody else builds there.
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
        // Each configuration and patch has a kernel of its own.
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

    /// Builds the kernel from `source`, or goes on with a build that was interrupted.
    ///
    /// # Errors
    /// If a tool or the source is missing, the source is of another version, or a step fails.
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
