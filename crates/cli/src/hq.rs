//! `hq-interop`: HTTP/0.9 over QUIC, as interoperability tests speak it. A request is `GET /path\r\n` on a stream of its
//! own; the answer is the file, or a reset.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use anabranch::{Connection, RecvStream, SendStream};
use bytes::Bytes;

use crate::exit::{Exit, Failure, Result};

/// Name of the application protocol.
pub(crate) const ALPN: &str = "hq-interop";

/// Longest request that a server reads, in bytes.
const MAX_REQUEST: usize = 4_096;
/// Bytes of a file that are read at a time.
const PIECE: usize = 256 * 1024;
/// Code of the reset that answers a request for what is not there.
const NOT_FOUND: u64 = 404;

/// Answers one request with a file below `root`, which is an absolute path without links.
pub(crate) async fn answer(
    root: Option<&Path>,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Option<u64> {
    let request = receive.read_to_end(MAX_REQUEST).await.ok()?;
    let file =
        root.and_then(|root| requested(root, &request)).and_then(|path| std::fs::File::open(path).ok());
    let Some(mut file) = file.filter(|file| file.metadata().is_ok_and(|data| data.is_file())) else {
        // Fails if the peer does not want the answer any longer.
        let _ = send.reset(NOT_FOUND);
        return None;
    };
    let mut sent = 0;
    loop {
        let mut piece = vec![0; PIECE];
        let Ok(len) = file.read(&mut piece) else {
            let _ = send.reset(NOT_FOUND);
            return None;
        };
        if len == 0 {
            break;
        }
        piece.truncate(len);
        sent += len as u64;
        send.write_chunk(Bytes::from(piece)).await.ok()?;
    }
    send.finish().ok()?;
    Some(sent)
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

/// Asks for `path` and writes the answer to `out` as it arrives; says how long it is.
pub(crate) async fn fetch(
    connection: &Connection,
    path: &str,
    out: &mut (dyn Write + Send),
    mut moved: impl FnMut(u64),
) -> Result<u64> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(format!("GET /{}\r\n", path.trim_start_matches('/')).as_bytes()).await?;
    send.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    let mut len = 0;
    loop {
        let mut written: io::Result<()> = Ok(());
        let read = |bytes: &[u8]| {
            written = out.write_all(bytes);
            bytes.len()
        };
        let read = receive.read_with(read).await.map_err(|error| match error {
            anabranch::ReadError::Reset(code) => {
                let what = format!("the server does not have {path} (it reset the stream: {code})");
                Failure::new(Exit::Protocol, what)
            }
            error => error.into(),
        })?;
        written.map_err(|error| Failure::io("cannot write", &error))?;
        let Some(n) = read else { return Ok(len) };
        len += n as u64;
        moved(n as u64);
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
