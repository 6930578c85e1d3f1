//! The kernel's source: Debian's package, or a folder or archive that the user names.

use std::fs;
use std::path::{Path, PathBuf};

use super::{PACKAGE, SERIES};

/// Archive that Debian's package installs.
const DEBIAN: &str = "/usr/src/linux-source-6.12.tar.xz";
/// Maximum number of bytes read from a Makefile.
const MAX_MAKEFILE: usize = 1 << 20;

/// The kernel's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder with an unpacked kernel, which is copied.
    Folder(PathBuf),
    /// An archive that `tar` can unpack.
    Archive(PathBuf),
}

/// Reason that a source cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Debian's package is not installed.
    #[error("there is no kernel source: apt-get install {PACKAGE} on Debian, or name one with --source")]
    None,
    /// The source does not exist or is not that of a kernel.
    #[error("{}: no source of a kernel (a folder with its Makefile, or an archive)", .0.display())]
    Other(PathBuf),
    /// The source has another version.
    #[error("{place} is Linux {found}, but the patch and all results are for {SERIES}", place = place.display())]
    Version {
        /// Path of the source.
        place: PathBuf,
        /// Version of the source.
        found: String,
    },
}

impl Source {
    /// Returns Debian's package if it is installed.
    ///
    /// # Errors
    /// Fails if the package is not installed.
    pub fn debian() -> Result<Self, SourceError> {
        let archive = PathBuf::from(DEBIAN);
        if archive.is_file() { Ok(Self::Archive(archive)) } else { Err(SourceError::None) }
    }

    /// Returns the source at `path`.
    ///
    /// # Errors
    /// Fails if there is no folder or file, or if the folder has another version.
    pub fn at(path: &Path) -> Result<Self, SourceError> {
        if path.is_dir() {
            checked(path)?;
            Ok(Self::Folder(path.to_owned()))
        } else if path.is_file() {
            Ok(Self::Archive(path.to_owned()))
        } else {
            Err(SourceError::Other(path.to_owned()))
        }
    }
}

/// Returns the version of the kernel in a folder.
///
/// # Errors
/// Fails if the folder has no kernel, or one of another series.
pub(super) fn checked(folder: &Path) -> Result<String, SourceError> {
    let makefile = fs::read_to_string(folder.join("Makefile")).unwrap_or_default();
    let value = |name: &str| {
        let mut lines = makefile.get(..MAX_MAKEFILE.min(makefile.len())).unwrap_or_default().lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
        found.map(str::trim).filter(|value| value.chars().all(|c| c.is_ascii_digit()) && !value.is_empty())
    };
    let (Some(version), Some(patch), Some(sub)) = (value("VERSION"), value("PATCHLEVEL"), value("SUBLEVEL"))
    else {
        return Err(SourceError::Other(folder.to_owned()));
    };
    let found = format!("{version}.{patch}.{sub}");
    if format!("{version}.{patch}") == SERIES {
        Ok(found)
    } else {
        Err(SourceError::Version { place: folder.to_owned(), found })
    }
}
