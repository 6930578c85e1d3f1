//! `hq-interop`: HTTP/0.9 over QUIC, as interoperability tests speak it. A request is `GET /path\r\n` on a stream of its
//! own; the answer is the file, or a reset.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use anabranch::{Connection, RecvStream, SendStream};
use bytes::Bytes;
use nix::libc;
use tokio::task::spawn_blocking;

use crate::exit::{Exit, Failure, Result};

/// Name of the application protocol.
pub(crate) const ALPN: &str = "hq-interop";

/// Longest request that a server reads, in bytes.
const MAX_REQUEST: usize = 4_096;
/// Bytes of a file that are read at a time.
const PIECE: usize = 256 * 1024;
/// Most bytes of an answer that are passed on at a time.
const ANSWER_PIECE: usize = 64 * 1024;
/// Code of the reset that answers a request for what is not there.
const NOT_FOUND: u64 = 404;

/// Answers one request with a file below `root`, which is an absolute path without links. Files are read on threads that
/// may wait for a disk.
pub(crate) async fn answer(
    root: Option<&Path>,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Option<u64> {
    let request = receive.read_to_end(MAX_REQUEST).await.ok()?;
    let root = root.map(Path::to_owned);
    let opened = spawn_blocking(move || root.and_then(|root| open(&root, &request))).await.ok()?;
    let Some(mut file) = opened else {
        // Fails if the peer does not want the answer any longer.
        let _ = send.reset(NOT_FOUND);
        return None;
    };
    let mut sent = 0;
    loop {
        let piece;
        (file, piece) = spawn_blocking(move || next_piece(file)).await.ok()?;
        let Ok(piece) = piece else {
            let _ = send.reset(NOT_FOUND);
            return None;
        };
        if piece.is_empty() {
            break;
        }
        sent += piece.len() as u64;
        send.write_chunk(piece).await.ok()?;
    }
    send.finish().ok()?;
    Some(sent)
}

/// The next bytes of a file; none at its end.
fn next_piece(mut file: File) -> (File, io::Result<Bytes>) {
    let mut piece = vec![0; PIECE];
    let read = file.read(&mut piece).map(|len| {
        piece.truncate(len);
        Bytes::from(piece)
    });
    (file, read)
}

/// Opens the file that a request names. Other things are not even opened: a pipe would have to wait for its other end, and
/// a device may do anything.
fn open(root: &Path, request: &[u8]) -> Option<File> {
    let path = requested(root, request).filter(|path| path.is_file())?;
    // By now the name may mean something else.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// The file that a request names. Nothing outside of `root` can be named, not even by links inside.
fn requested(root: &Path, request: &[u8]) -> Option<PathBuf> {
    let line = std::str::from_utf8(request).ok()?;
    let path = line.strip_prefix("GET /")?.trim_end_matches(['\r', '\n']);
    let relative = Path::new(path);
    let plain = !path.is_empty() && relative.components().all(|part| matches!(part, Component::Normal(_)));
    let file = plain.then(|| root.join(relative))?.canonicalize().ok()?;
    file.starts_with(root).then_some(file)
}

/// Asks for `path`.
pub(crate) async fn ask(connection: &Connection, path: &str) -> Result<Answer> {
    let (mut send, receive) = connection.open_bi().await?;
    send.write_all(format!("GET /{}\r\n", path.trim_start_matches('/')).as_bytes()).await?;
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    Ok(Answer { receive, path: path.to_owned() })
}

/// A file on its way.
pub(crate) struct Answer {
    receive: RecvStream,
    path: String,
}

impl Answer {
    /// What has arrived of it; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>> {
        self.receive.read_chunk(ANSWER_PIECE).await.map_err(|error| match error {
            anabranch::ReadError::Reset(code) => {
                let what = format!("the server does not have {} (it reset the stream: {code})", self.path);
                Failure::new(Exit::Protocol, what)
            }
            error => error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_files_below_the_root_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root").canonicalize().unwrap_or_else(|_| {
            std::fs::create_dir(dir.path().join("root")).unwrap();
            dir.path().join("root").canonicalize().unwrap()
        });
        std::fs::create_dir(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/file"), "here").unwrap();
        std::fs::write(dir.path().join("secret"), "not here").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link")).unwrap();
        assert_eq!(requested(&root, b"GET /sub/file\r\n"), Some(root.join("sub/file")));
        assert_eq!(requested(&root, b"GET /sub/file"), Some(root.join("sub/file")));
        for bad in [
            b"GET /../secret\r\n".as_slice(),
            b"GET /sub/../../secret\r\n",
            b"GET /link\r\n",
            b"GET //etc/passwd\r\n",
            b"GET /./sub/file\r\n",
            b"GET /\r\n",
            b"GET /missing\r\n",
            b"PUT /sub/file\r\n",
            b"GET /sub/file\0\r\n",
            b"\xff\r\n",
        ] {
            assert_eq!(requested(&root, bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
