//! Data that the demo moves: bytes that do not repeat, or a file, and their digest.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::exit::{Exit, Failure, Result};

/// Bytes that are made or read at a time.
const PIECE: usize = 64 * 1024;
/// Pieces that wait to be sent.
const MAX_WAITING: usize = 16;
/// Length of the digest that ends the stream.
pub(super) const DIGEST: usize = 32;
/// Seed of the bytes that do not repeat.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Data to move.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// This many bytes that look random.
    Made(u64),
    /// A file of this length.
    File(PathBuf, u64),
}

impl Source {
    pub(super) fn file(path: &Path) -> Result<Self> {
        let unusable =
            |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
        let found = std::fs::metadata(path).map_err(|error| unusable(&error))?;
        if !found.is_file() {
            return Err(unusable(&"not a file"));
        }
        File::open(path).map_err(|error| unusable(&error))?;
        Ok(Self::File(path.to_owned(), found.len()))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Made(len) | Self::File(_, len) => *len,
        }
    }

    /// Returns the bytes and then their digest, made on a thread of their own; an error ends them early.
    pub(super) fn pieces(self) -> mpsc::Receiver<io::Result<Bytes>> {
        let (send, receive) = mpsc::channel(MAX_WAITING);
        spawn_blocking(move || {
            if let Err(error) = self.give(&send) {
                // Nobody listens if the connection is gone.
                let _ = send.blocking_send(Err(error));
            }
        });
        receive
    }

    fn give(self, to: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
        let mut left = self.len();
        let mut bytes: Box<dyn Read> = match self {
            Self::Made(_) => Box::new(Generator { state: SEED, rest: [0; 8], left: 0 }),
            Self::File(path, _) => Box::new(File::open(path)?),
        };
        let mut digest = Context::new(&SHA256);
        while left > 0 {
            let mut piece = vec![0; left.min(PIECE as u64) as usize];
            bytes.read_exact(&mut piece)?;
            digest.update(&piece);
            left -= piece.len() as u64;
            if to.blocking_send(Ok(piece.into())).is_err() {
                return Ok(());
            }
        }
        let _ = to.blocking_send(Ok(Bytes::copy_from_slice(digest.finish().as_ref())));
        Ok(())
    }
}

/// Bytes that look random (xorshift64*), so that nothing on the way can be lucky.
struct Generator {
    state: u64,
    /// The last word, of which this many bytes are left.
    rest: [u8; 8],
    left: usize,
}

impl Read for Generator {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for byte in buffer.iter_mut() {
            if self.left == 0 {
                self.state ^= self.state >> 12;
                self.state ^= self.state << 25;
                self.state ^= self.state >> 27;
                self.rest = self.state.wrapping_mul(SEED).to_le_bytes();
                self.left = self.rest.len();
            }
            self.left -= 1;
            *byte = self.rest[self.left];
        }
        Ok(buffer.len())
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::digest;

    use super::*;

    async fn all(source: Source) -> Vec<u8> {
        let (mut pieces, mut all) = (source.pieces(), Vec::new());
        while let Some(piece) = pieces.recv().await {
            all.extend_from_slice(&piece.unwrap());
        }
        all
    }

    #[tokio::test]
    async fn what_is_made_does_not_repeat_and_ends_with_its_digest() {
        let made = all(Source::Made(200_001)).await;
        let (data, end) = made.split_at(200_001);
        assert_eq!(end, digest(&SHA256, data).as_ref());
        let mut words: Vec<_> = data.chunks_exact(8).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 25_000);
    }

    #[tokio::test]
    async fn files_are_moved_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let source = Source::file(&path).unwrap();
        assert_eq!(source.len(), 100_000);
        assert_eq!(all(source.clone()).await[..100_000], vec![7; 100_000]);
        std::fs::write(&path, "shorter").unwrap();
        let mut pieces = source.pieces();
        assert_eq!(pieces.recv().await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for bad in [dir.path(), Path::new("no such file")] {
            assert_eq!(Source::file(bad).unwrap_err().exit(), Exit::Usage);
        }
    }
}
