//! Output of fetched content. A separate thread writes it, so that a blocked reader delays neither the
//! connection nor the end of the program.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use bytes::Bytes;
use tempfile::{Builder, TempPath};
use tokio::sync::{mpsc, oneshot};

use crate::exit::{Exit, Failure, Result};

/// Maximum number of pieces that wait to be written.
const QUEUE: usize = 64;
/// Maximum number of bytes of the file's name in the name of the partial file. File names are limited to 255
/// bytes, including the suffix.
const MAX_PREFIX: usize = 200;
/// Mode of a new file, less the process's umask.
const MODE: u32 = 0o666;

/// Destination of fetched content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Content is counted and discarded.
    Nowhere,
    /// Standard output.
    Standard,
    /// A file that appears under its name only when it is complete.
    File(PathBuf),
    /// A partial file, to which the rest is appended.
    Rest(PathBuf),
}

impl Destination {
    /// Returns the number of bytes that the file has already.
    pub(crate) fn begun(&self) -> u64 {
        match self {
            Self::Rest(name) => fs::metadata(name).map_or(0, |found| found.len()),
            _ => 0,
        }
    }

    /// Returns the last bytes of the partial file, at most `max`.
    pub(crate) fn tail(&self, max: usize) -> Result<Vec<u8>> {
        let Self::Rest(name) = self else { return Ok(Vec::new()) };
        let begun = self.begun();
        let mut tail = vec![0; max.min(usize::try_from(begun).unwrap_or(max))];
        if !tail.is_empty() {
            let from = begun - tail.len() as u64;
            let read = File::open(name).and_then(|file| file.read_exact_at(&mut tail, from));
            read.map_err(|error| Failure::io(format_args!("cannot read {}", name.display()), &error))?;
        }
        Ok(tail)
    }
}

/// An open destination. The named file is unchanged until [`Output::keep`].
pub(crate) struct Output {
    /// Name for error messages.
    name: PathBuf,
    /// Temporary file, removed when dropped.
    part: Option<TempPath>,
    /// `true` if nobody has seen the content, so that it can be discarded.
    unseen: bool,
    writer: Writer,
}

impl Output {
    /// Opens `destination`. With `digest`, [`Output::keep`] returns the SHA-256 of the complete content.
    pub(crate) fn open(destination: &Destination, digest: bool) -> Result<Self> {
        let at_once =
            |name: &Path, writer| Ok(Self { name: name.to_owned(), part: None, unseen: false, writer });
        match destination {
            Destination::Nowhere => {
                let writer = Writer::new(digest, || Ok(io::sink()));
                Ok(Self { name: "-".into(), part: None, unseen: true, writer })
            }
            Destination::Standard => at_once(Path::new("-"), Writer::new(digest, standard)),
            Destination::Rest(name) => at_once(name, Writer::append(name.clone(), digest)),
            Destination::File(name) => Self::file(name, digest),
        }
    }

    /// Opens a file. Pipes, devices and the targets of dangling symbolic links are written directly.
    fn file(name: &Path, digest: bool) -> Result<Self> {
        let direct = fs::metadata(name).map_or(name.is_symlink(), |found| !found.is_file());
        if direct {
            // Opening a pipe may block until it has a reader, so the thread opens it.
            let target = name.to_owned();
            let open = || File::options().write(true).create(true).truncate(true).open(target);
            let writer = Writer::new(digest, open);
            return Ok(Self { name: name.to_owned(), part: None, unseen: false, writer });
        }
        // A symbolic link is kept, and its target is replaced.
        let name = name.canonicalize().unwrap_or_else(|_| name.to_owned());
        let (file, part) = part_of(&name)?;
        Ok(Self { name, part: Some(part), unseen: true, writer: Writer::new(digest, || Ok(file)) })
    }

    /// Returns whether dropping the output discards all its content.
    pub(crate) fn can_be_taken_back(&self) -> bool {
        self.unseen
    }

    pub(crate) async fn write(&mut self, piece: Bytes) -> Result {
        self.writer.write(piece).await.map_err(|error| failed(&self.name, &error))
    }

    /// Completes the output and gives the file its name. Returns the SHA-256 if it was requested.
    pub(crate) async fn keep(self) -> Result<Option<Digest>> {
        let Self { name, part, writer, .. } = self;
        let written = writer.finish().await;
        let kept = written.and_then(|digest| match part {
            Some(part) => part.persist(&name).map_err(|error| error.error).map(|()| digest),
            None => Ok(digest),
        });
        kept.map_err(|error| failed(&name, &error))
    }
}

fn failed(name: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("cannot write {}", name.display()), error)
}

/// Creates a temporary file beside `name`, to be renamed to it later.
fn part_of(name: &Path) -> Result<(File, TempPath)> {
    let Some(last) = name.file_name() else {
        return Err(Failure::new(Exit::Usage, format!("{} names no file", name.display())));
    };
    // Errors of `tempfile` contain the temporary name; report the file's own name instead.
    let failed = |error: io::Error| {
        let inner = error.get_ref().and_then(std::error::Error::source);
        let cause = inner.and_then(|inner| inner.downcast_ref::<io::Error>()).unwrap_or(&error);
        Failure::io(format_args!("cannot create {}", name.display()), cause)
    };
    // Reports an impossible name now; otherwise the rename would fail after the download.
    if let Err(error) = fs::symlink_metadata(name)
        && error.kind() == io::ErrorKind::InvalidFilename
    {
        return Err(failed(error));
    }
    let last = last.as_bytes();
    let mut prefix = OsStr::from_bytes(&last[..last.len().min(MAX_PREFIX)]).to_owned();
    prefix.push(".part-");
    let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = Builder::new().prefix(&prefix).permissions(Permissions::from_mode(MODE)).tempfile_in(dir);
    made.map(tempfile::NamedTempFile::into_parts).map_err(failed)
}

/// Handle of a thread that writes content. The thread opens the destination with the first piece, so a
/// download that never starts leaves no empty file. It ends once `pieces` is dropped and the queue is empty,
/// or at the first error.
struct Writer {
    pieces: mpsc::Sender<Bytes>,
    result: oneshot::Receiver<io::Result<Option<Digest>>>,
}

impl Writer {
    fn new<W: Write>(digest: bool, open: impl FnOnce() -> io::Result<W> + Send + 'static) -> Self {
        Self::spawn(move || Ok((open()?, digest.then(|| Context::new(&SHA256)))))
    }

    /// Creates a writer that appends to a file. The digest covers the whole file.
    fn append(name: PathBuf, digest: bool) -> Self {
        Self::spawn(move || {
            let mut file = File::options().read(digest).append(true).create(true).open(name)?;
            let mut context = digest.then(|| Context::new(&SHA256));
            if let Some(context) = &mut context {
                io::copy(&mut file, &mut Digesting(context))?;
            }
            Ok((file, context))
        })
    }

    fn spawn<W: Write>(open: impl FnOnce() -> io::Result<(W, Option<Context>)> + Send + 'static) -> Self {
        let (pieces, mut queue) = mpsc::channel::<Bytes>(QUEUE);
        let (tell, result) = oneshot::channel();
        thread::spawn(move || {
            let mut waiting = Vec::with_capacity(QUEUE);
            if queue.blocking_recv_many(&mut waiting, QUEUE) == 0 {
                return;
            }
            let write = || {
                let (mut out, mut digest) = open()?;
                while !waiting.is_empty() {
                    write_together(&mut out, &waiting)?;
                    digest
                        .iter_mut()
                        .for_each(|digest| waiting.iter().for_each(|piece| digest.update(piece)));
                    waiting.clear();
                    queue.blocking_recv_many(&mut waiting, QUEUE);
                }
                out.flush()?;
                Ok(digest.map(Context::finish))
            };
            // The receiver is gone if the command has already failed.
            let _ = tell.send(write());
        });
        Self { pieces, result }
    }

    /// Queues a piece; waits while the queue is full. A write error may be returned only with a later piece.
    async fn write(&mut self, piece: Bytes) -> io::Result<()> {
        match self.pieces.send(piece).await {
            Ok(()) => Ok(()),
            Err(_) => told((&mut self.result).await).map(drop),
        }
    }

    /// Ends the output. Empty content creates an empty file, too.
    async fn finish(mut self) -> io::Result<Option<Digest>> {
        self.write(Bytes::new()).await?;
        drop(self.pieces);
        told(self.result.await)
    }
}

/// Opens standard output without a buffer, which would copy all content once more.
fn standard() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Writes all pieces without copying them, in as few system calls as possible.
fn write_together(out: &mut impl Write, pieces: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match out.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut left, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn told<T>(result: std::result::Result<io::Result<T>, oneshot::error::RecvError>) -> io::Result<T> {
    result.unwrap_or_else(|_| Err(io::Error::other("nobody writes any longer")))
}

/// Writer that adds to a digest.
struct Digesting<'a>(&'a mut Context);

impl Write for Digesting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats a digest as hexadecimal digits.
pub(crate) fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
