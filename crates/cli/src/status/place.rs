//! Paths of the Unix sockets on which processes publish their state.
//!
//! A socket belongs to the process that holds the lock on the lock file beside it. The kernel releases the lock when the
//! process ends, also if it is killed, so the next process knows that it may replace the socket.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::libc;

use crate::exit::{Exit, Failure, Result};

/// Maximum number of sockets of one role in a directory.
const MAX_NAMES: usize = 64;
/// Mode of the directory and, below, of sockets and lock files.
const DIRECTORY_MODE: u32 = 0o700;
const MODE: u32 = 0o600;
/// Name of this program's directory in a runtime directory.
const NAME: &str = "anabranch";
/// Extension of a socket's name and, below, of a lock file's name.
const SOCKET: &str = "sock";
const LOCK: &str = "lock";

/// A bound socket and its lock file, which are removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    socket: PathBuf,
    lock: PathBuf,
    /// Open lock file, which holds the lock.
    _held: File,
}

/// Reason why a socket cannot be bound.
enum Taken {
    /// A running process holds the lock.
    Busy,
    Failed(io::Error),
}

impl From<io::Error> for Taken {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Place {
    /// Binds a socket for a process of this role in the first usable one of [`directories`], which is created if it is missing.
    pub(crate) fn take(role: &str) -> Result<(Self, UnixListener)> {
        let mut refused = None;
        for directory in directories() {
            match prepare(&directory) {
                Ok(()) => return Self::take_in(&directory, role),
                Err(error) => refused = Some(failed(&directory, &error)),
            }
        }
        Err(refused.unwrap_or_else(|| Failure::new(Exit::Usage, "RUNTIME_DIRECTORY is empty")))
    }

    fn take_in(directory: &Path, role: &str) -> Result<(Self, UnixListener)> {
        for number in 1..=MAX_NAMES {
            let name = if number == 1 { role.to_owned() } else { format!("{role}-{number}") };
            let socket = directory.join(name).with_extension(SOCKET);
            match Self::take_at(&socket) {
                Ok(taken) => return Ok(taken),
                Err(Taken::Busy) => {}
                Err(Taken::Failed(error)) => return Err(failed(&socket, &error)),
            }
        }
        let what = format!("{} has {MAX_NAMES} sockets already", directory.display());
        Err(Failure::new(Exit::BusyPort, what).or("name another with --status-socket"))
    }

    /// Binds a socket at `path`. Replaces the socket of a process that has ended.
    pub(crate) fn take_named(path: &Path) -> Result<(Self, UnixListener)> {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
            let what = format!("{} exists, and is no socket", path.display());
            return Err(Failure::new(Exit::Usage, what).or("name another place, or remove it"));
        }
        Self::take_at(path).map_err(|taken| match taken {
            Taken::Busy => {
                Failure::new(Exit::BusyPort, format!("{} belongs to a running process", path.display()))
                    .or("name another place")
            }
            Taken::Failed(error) => failed(path, &error),
        })
    }

    fn take_at(socket: &Path) -> std::result::Result<(Self, UnixListener), Taken> {
        let lock = socket.with_extension(LOCK);
        let held = hold(&lock)?;
        let listener = bind(socket)?;
        Ok((Self { socket: socket.to_owned(), lock, _held: held }, listener))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock is still held, so both files belong to this process. The next process replaces files that cannot be removed.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.lock);
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("cannot publish the state at {}", path.display()), error)
}

/// Opens and locks a lock file, which is created if it is missing. Fails if the path is a symbolic link: in a shared directory
/// another user may have created it.
fn hold(path: &Path) -> std::result::Result<File, Taken> {
    let mut options = File::options();
    // Without O_NONBLOCK, the call would wait if the path is a FIFO.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    options.write(true).create(true).truncate(false).mode(MODE).custom_flags(flags);
    loop {
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Taken::Busy),
            Err(TryLockError::Error(error)) => return Err(Taken::Failed(error)),
        }
        // The process that held the lock may have removed the file meanwhile, and another one may have created a new file.
        let is_there = fs::symlink_metadata(path)
            .is_ok_and(|found| found.ino() == file.metadata().map_or(0, |own| own.ino()));
        if is_there {
            return Ok(file);
        }
    }
}

/// Binds a socket in a private directory, restricts its mode, and moves it to its path. So no other user can connect to it
/// at any time.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let directory = socket.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The directory has the mode 0700.
    let hidden = tempfile::Builder::new().prefix(".").rand_bytes(6).tempdir_in(directory)?;
    let bound = hidden.path().join("s");
    let listener = UnixListener::bind(&bound)?;
    fs::set_permissions(&bound, Permissions::from_mode(MODE))?;
    fs::rename(&bound, socket)?;
    Ok(listener)
}

/// Creates a runtime directory if it is missing, and sets its mode to 0700. Fails if it belongs to another user.
fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let (named, found) = (fs::symlink_metadata(directory)?, fs::metadata(directory)?);
    // systemd, as root, creates symbolic links to the directories of services with dynamic users. In /tmp any user can
    // create a link.
    let is_foreign_link = named.is_symlink() && named.uid() != 0;
    if is_foreign_link || !found.is_dir() || Some(found.uid()) != own_id() {
        return Err(io::Error::other("it is no directory of this user"));
    }
    fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))
}

/// Returns the ID of this process's user.
fn own_id() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|own| own.uid())
}

/// Returns the directories in which this process may publish its state, the preferred one first.
fn directories() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("RUNTIME_DIRECTORY") {
        // systemd separates several directories by colons; the first one is used.
        return env::split_paths(&named).take(1).collect();
    }
    // After `sudo` the variable may name the directory of another user.
    let is_own =
        |directory: &PathBuf| fs::metadata(directory).is_ok_and(|found| Some(found.uid()) == own_id());
    let session =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_own).map(|found| found.join(NAME));
    let of_root = (own_id() == Some(0)).then(|| Path::new("/run").join(NAME));
    session.into_iter().chain(of_root).chain([temporary()]).collect()
}

/// Returns the directory for users without `XDG_RUNTIME_DIR`.
fn temporary() -> PathBuf {
    env::temp_dir().join(format!("{NAME}-{}", own_id().unwrap_or_default()))
}

/// Returns the directories of services, `/run/anabranch*`.
fn of_services() -> Vec<PathBuf> {
    let entries = fs::read_dir("/run").into_iter().flatten().flatten();
    let is_one = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(NAME));
    entries.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Returns the sockets that this user can see, also those of processes that have ended.
pub(super) fn sockets() -> Vec<PathBuf> {
    let mut all = directories();
    if env::var_os("RUNTIME_DIRECTORY").is_none() {
        all.extend(of_services());
    }
    let sockets = all.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let mut sockets: Vec<_> = sockets
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == SOCKET))
        .collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

#[cfg(test)]
mod tests;
