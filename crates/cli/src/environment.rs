//! Environment variables that name output files. A file that cannot be written is reported once, at the
//! start.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::exit::note;

/// Help on the environment variables.
pub(crate) const HELP: &str = "Environment: SSLKEYLOGFILE names a file for TLS secrets, QLOGDIR a directory for traces of connections,\nANABRANCH_LOG says what is told on standard error, as in anabranch::path=debug (see -v).";

/// Warns on standard error about each variable that names a file or directory that cannot be written. The
/// command continues without it.
pub(crate) fn check() {
    for warning in warnings(|name| std::env::var_os(name)) {
        note(format_args!("anabranch: {warning}"));
    }
}

/// Returns one warning for each variable whose file or directory cannot be written.
fn warnings(get: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let said = |name: &str, tried: fn(&Path) -> io::Result<()>, lost: &str| {
        let path = get(name).filter(|path| !path.is_empty())?;
        let error = tried(Path::new(&path)).err()?;
        Some(format!("{name}: cannot write {}: {error}; there will be no {lost}", Path::new(&path).display()))
    };
    let secrets = said("SSLKEYLOGFILE", can_append, "TLS secrets");
    let traces = said("QLOGDIR", can_create_in, "traces");
    secrets.into_iter().chain(traces).collect()
}

fn can_append(path: &Path) -> io::Result<()> {
    File::options().append(true).create(true).open(path).map(drop)
}

/// Checks that files can be created in `dir`. Creates the directory if necessary, as the first trace would.
fn can_create_in(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    tempfile::tempfile_in(dir).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_written_is_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let told = |secrets: &str, traces: &str| {
            let path = |name: &str| (!name.is_empty()).then(|| dir.path().join(name).into_os_string());
            warnings(|name| path(if name == "QLOGDIR" { traces } else { secrets }))
        };
        assert_eq!(told("", ""), [""; 0]);
        assert_eq!(told("secrets", "new/traces"), [""; 0]);
        assert_eq!(fs::read_dir(dir.path().join("new/traces")).unwrap().count(), 0, "nothing is left there");
        let both = told("file/secrets", "file");
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with("SSLKEYLOGFILE: cannot write ") && both[0].ends_with("no TLS secrets"));
        assert!(both[1].starts_with("QLOGDIR: cannot write ") && both[1].ends_with("no traces"), "{both:?}");
    }
}
