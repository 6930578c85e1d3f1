//! Programs that a build needs, and their packages.

use std::collections::BTreeSet;
use std::env;

use super::BuildError;

/// Programs, each with the package of Debian that contains it.
const TOOLS: [(&str, &str); 9] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Looks for all programs of [`TOOLS`] in the folders of `PATH`.
///
/// # Errors
/// Fails if some are missing.
pub(super) fn check() -> Result<(), BuildError> {
    let path = env::var_os("PATH").unwrap_or_default();
    missing(|program| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

pub(super) fn missing(is_there: impl Fn(&str) -> bool) -> Result<(), BuildError> {
    let absent: Vec<_> = TOOLS.iter().filter(|(program, _)| !is_there(program)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let list = |of: BTreeSet<&str>, between: &str| of.into_iter().collect::<Vec<_>>().join(between);
    Err(BuildError::Tools {
        missing: list(absent.iter().map(|(program, _)| *program).collect(), ", "),
        packages: list(absent.iter().map(|(_, package)| *package).collect(), " "),
    })
}
