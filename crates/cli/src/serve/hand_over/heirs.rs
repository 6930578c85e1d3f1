//! The Unix socket on which the next server asks for the sockets of this one.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch::{Endpoint, HandOver};
use tokio::net::{UnixListener, UnixStream};

use super::peer::{blocking, is_same_user};
use super::{GRANTED, MAX_ENDPOINTS, MAX_REASON, METRICS, READY, REFUSED, START, TCP};
use crate::exit::{Exit, Failure, Result, note};

/// Mode of the socket: for processes of its owner only.
const MODE: u32 = 0o600;

/// Everything that is handed over.
#[derive(Default)]
pub(in crate::serve) struct Goods {
    pub(in crate::serve) endpoints: Vec<Endpoint>,
    tcp: Vec<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Goods {
    /// Keeps duplicates of the listeners, if they are `wanted`.
    pub(in crate::serve) fn of_tcp(
        wanted: bool,
        tcp: &[TcpListener],
        metrics: Option<&TcpListener>,
    ) -> Result<Self> {
        if !wanted {
            return Ok(Self::default());
        }
        let failed = |error| Failure::io("cannot duplicate a TCP socket", &error);
        let tcp = tcp.iter().map(TcpListener::try_clone).collect::<io::Result<_>>().map_err(failed)?;
        let metrics = metrics.map(TcpListener::try_clone).transpose().map_err(failed)?;
        Ok(Self { endpoints: Vec::new(), tcp, metrics })
    }

    /// Prepares the hand-over of all sockets.
    fn pack(&self) -> io::Result<Vec<HandOver>> {
        if self.endpoints.len() > MAX_ENDPOINTS {
            return Err(io::Error::other("the server has too many addresses"));
        }
        let mut packed = self.endpoints.iter().map(Endpoint::hand_over).collect::<io::Result<Vec<_>>>()?;
        let listeners = self.tcp.iter().map(|listener| (TCP, listener));
        let listeners = listeners.chain(self.metrics.iter().map(|listener| (METRICS, listener)));
        let further = listeners.map(|(number, listener)| Ok((number, OwnedFd::from(listener.try_clone()?))));
        let further = further.collect::<io::Result<Vec<_>>>()?;
        if let Some(last) = packed.pop() {
            packed.push(last.with_further(further));
        }
        Ok(packed)
    }
}

/// Unix socket for the next server. It has another name until this server is ready.
pub(in crate::serve) struct Heirs {
    listener: UnixListener,
    path: PathBuf,
    hidden: PathBuf,
    /// Device and number of the socket's file.
    id: (u64, u64),
    /// `true` once another process has the place.
    is_succeeded: AtomicBool,
}

impl Heirs {
    /// Binds the socket beside `path`.
    pub(in crate::serve) fn bind(path: &Path) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
            let what = format!("--handover: {} is no socket", path.display());
            return Err(Failure::new(Exit::Usage, what).or("name a file that does not exist yet"));
        }
        let failed = |error| Failure::io(format_args!("cannot create the socket {}", path.display()), &error);
        let mut hidden = path.as_os_str().to_owned();
        hidden.push(format!(".{}", std::process::id()));
        let hidden = PathBuf::from(hidden);
        // A process that had the same number may have left it.
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden).map_err(failed)?;
        let limited = fs::set_permissions(&hidden, fs::Permissions::from_mode(MODE));
        let file = limited.and_then(|()| fs::symlink_metadata(&hidden)).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            hidden,
            id: (file.dev(), file.ino()),
            is_succeeded: AtomicBool::new(false),
        })
    }

    /// Gives the socket its name, in place of the old process's socket.
    pub(super) fn open(&mut self) -> io::Result<()> {
        fs::rename(&self.hidden, &self.path)
    }

    /// Waits until another process has taken the sockets over and is ready.
    pub(super) async fn succeeded(&self, goods: &Goods) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // The process has no free descriptors.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            match serve(stream, goods).await {
                Ok(()) => return self.is_succeeded.store(true, Ordering::Relaxed),
                Err(error) => {
                    note(format_args!("anabranch: this server goes on, the new one did not start: {error}"));
                }
            }
        }
    }
}

impl Drop for Heirs {
    /// Removes the file, unless a younger process replaces it.
    fn drop(&mut self) {
        if self.is_succeeded.load(Ordering::Relaxed) {
            return;
        }
        for path in [&self.hidden, &self.path] {
            if fs::symlink_metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == self.id) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Hands everything over to the process at the other end, and waits until it is ready.
async fn serve(stream: UnixStream, goods: &Goods) -> io::Result<()> {
    if !is_same_user(&stream)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    let stream = blocking(stream)?;
    let packed = goods.pack();
    let passing = tokio::task::spawn_blocking(move || pass(stream, packed));
    passing.await.map_err(io::Error::other).flatten()?;
    // A worker of the new process may not have begun yet. Until then, its clients come here.
    let relieved = async {
        for endpoint in &goods.endpoints {
            endpoint.relieved().await;
        }
    };
    Ok(tokio::time::timeout(START, relieved).await?)
}

fn pass(mut stream: StdUnixStream, packed: io::Result<Vec<HandOver>>) -> io::Result<()> {
    let packed = match packed {
        Ok(packed) => packed,
        Err(error) => {
            let reason = error.to_string();
            let reason = &reason.as_bytes()[..reason.len().min(MAX_REASON)];
            stream.write_all(&[&[REFUSED, reason.len() as u8], reason].concat())?;
            return Err(error);
        }
    };
    stream.write_all(&[GRANTED, packed.len() as u8])?;
    packed.into_iter().try_for_each(|hand_over| hand_over.send(&stream))?;
    stream.set_read_timeout(Some(START))?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer == [READY] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
