//! File with the changes that a VPN has made to this host, from which they can be undone after a crash.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::dns::Resolver;
use crate::exit::{Exit, Failure, Result};

/// Directory of the lock and the state, unless `RUNTIME_DIRECTORY` names one.
const DIRECTORY: &str = "/run/anabranch";
/// Names of the file with the state, and of the lock beside it.
pub(super) const STATE: &str = "vpn.json";
const LOCK: &str = "vpn.json.lock";
/// Maximum length of a file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Changes to this host that outlive the command, except routes and rules, which are found by their table and protocol number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// Change of the resolver's configuration.
    pub(super) resolver: Option<Resolver>,
    /// URL of the proxy and, below, its addresses, to which packets go around the tunnel.
    pub(super) proxy: String,
    pub(super) remotes: Vec<SocketAddr>,
    /// Addresses of this host in the tunnel.
    pub(super) addresses: Vec<IpAddr>,
}

/// Lock that one VPN of this host holds, and the directory of its state. The kernel releases the lock when the process ends.
#[derive(Debug)]
pub(super) struct Place {
    directory: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl Place {
    /// Takes the lock.
    ///
    /// # Errors
    /// Fails if another VPN holds the lock, or if the directory cannot be written.
    pub(super) fn take() -> Result<Self> {
        // systemd separates several directories by colons; the first one is used.
        let named = std::env::var("RUNTIME_DIRECTORY").unwrap_or_default();
        let named = named.split(':').next().filter(|path| !path.is_empty());
        Self::take_in(Path::new(named.unwrap_or(DIRECTORY)))
    }

    pub(super) fn take_in(directory: &Path) -> Result<Self> {
        let failed = |error: &io::Error| {
            let what = format!("{}: {error}", directory.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied => Failure::new(Exit::NotPermitted, what)
                    .or("run as root, or name a directory of your own in RUNTIME_DIRECTORY"),
                _ => Failure::new(Exit::Io, what),
            }
        };
        fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        let path = directory.join(LOCK);
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut lock = options.open(&path).map_err(|error| failed(&error))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    let _ = lock.take(32).read_to_string(&mut holder);
                    let what = format!("another VPN runs on this host (process {})", holder.trim());
                    return Err(Failure::new(Exit::SecondVpn, what).or("end it first"));
                }
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
            }
            // The former holder of the lock may have removed the file meanwhile.
            let is_same = fs::metadata(&path)
                .is_ok_and(|there| lock.metadata().is_ok_and(|own| own.ino() == there.ino()));
            if is_same {
                let pid = std::process::id().to_string();
                let written = lock.set_len(0).and_then(|()| lock.write_all(pid.as_bytes()));
                written.map_err(|error| failed(&error))?;
                return Ok(Self { directory: directory.to_owned(), _lock: lock });
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(STATE)
    }

    /// Returns the state that an earlier VPN has left; `None` if there is none.
    pub(super) fn left(&self) -> Option<State> {
        let mut text = String::new();
        File::open(self.file()).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
        // From a damaged file no resolvers are restored, but routes and rules are found without it.
        Some(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Writes the state. This must precede the changes that the state describes.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn write(&self, state: &State) -> Result {
        let path = self.file();
        let text = serde_json::to_string(state).unwrap_or_default();
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)
        };
        write().map(drop).map_err(|error| Failure::io(path.display(), &error))
    }

    /// Removes the files: everything is undone. The lock of this process is of no use from then on.
    pub(super) fn leave(&self) {
        let _ = fs::remove_file(self.file());
        let _ = fs::remove_file(self.directory.join(LOCK));
        // Succeeds if nobody else uses the directory.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_vpn_has_the_place_and_finds_what_another_left() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("run");
        let place = Place::take_in(&directory).unwrap();
        assert_eq!(place.left(), None);
        let failure = Place::take_in(&directory).unwrap_err();
        assert_eq!(failure.exit(), Exit::SecondVpn);
        assert!(failure.to_string().contains(&std::process::id().to_string()), "{failure}");
        let resolver =
            Resolver { path: "/etc/resolv.conf".into(), before: Some("a".to_owned()), after: "b".to_owned() };
        let remotes = vec!["192.0.2.1:443".parse().unwrap()];
        let proxy = "https://p".to_owned();
        let state = State { resolver: Some(resolver), proxy, remotes, addresses: vec![[10, 9, 0, 2].into()] };
        place.write(&state).unwrap();
        // After a crash, the files stay.
        drop(place);
        let next = Place::take_in(&directory).unwrap();
        assert_eq!(next.left(), Some(state));
        fs::write(next.file(), "damaged").unwrap();
        assert_eq!(next.left(), Some(State::default()));
        next.leave();
        assert!(!directory.exists());
    }

    #[test]
    fn files_longer_than_max_file_are_cut() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::take_in(dir.path()).unwrap();
        let resolver =
            Resolver { path: "/a".into(), before: Some("x".repeat(MAX_FILE as usize)), after: String::new() };
        place.write(&State { resolver: Some(resolver), ..State::default() }).unwrap();
        assert_eq!(place.left(), Some(State::default()));
    }
}
