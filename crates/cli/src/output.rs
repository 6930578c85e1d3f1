//! Where a fetched file goes. It is written on a thread of its own, so that a reader who pauses holds up neither the
//! connection nor the end of the program.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use bytes::Bytes;
use tempfile::{Builder, TempPath};
use tokio::sync::{mpsc, oneshot};

use crate::exit::{Exit, Failure, Result};

/// Pieces that may wait to be written.
const QUEUE: usize = 64;
/// What a new file permits, less the process's umask.
const MODE: u32 = 0o666;

/// A file gets its name only once it is whole; until then nothing of that name is touched.
pub(crate) struct Output {
    name: PathBuf,
    /// Removed when dropped.
    part: Option<TempPath>,
    writer: Writer,
}

impl Output {
    /// `-` is standard output. Pipes and devices are written to as they are, and so is what a dangling link leads to.
    pub(crate) fn choose(name: &Path) -> Result<Self> {
        if name == Path::new("-") {
            return Ok(Self { name: name.to_owned(), part: None, writer: Writer::new(|| Ok(io::stdout())) });
        }
        let direct = fs::metadata(name).map_or(name.is_symlink(), |found| !found.is_file());
        if direct {
            // A pipe may have to wait for its reader until it opens, which is up to the thread.
            let target = name.to_owned();
            let open = || File::options().write(true).create(true).truncate(true).open(target);
            return Ok(Self { name: name.to_owned(), part: None, writer: Writer::new(open) });
        }
        // A link stays, and the file that it leads to is replaced.
        let name = name.canonicalize().unwrap_or_else(|_| name.to_owned());
        let (file, part) = part_of(&name)?;
        Ok(Self { name, part: Some(part), writer: Writer::new(|| Ok(BufWriter::new(file))) })
    }

    pub(crate) async fn write(&mut self, piece: Bytes) -> Result {
        self.writer.write(piece).await.map_err(|error| failed(&self.name, &error))
    }

    /// The file is whole.
    pub(crate) async fn keep(self) -> Result {
        let Self { name, part, writer } = self;
        let written = writer.finish().await;
        let kept = written.and_then(|()| match part {
            Some(part) => part.persist(&name).map_err(|error| error.error),
            None => Ok(()),
        });
        kept.map_err(|error| failed(&name, &error))
    }
}

fn failed(name: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("cannot write {}", name.display()), error)
}

/// A new file beside `name`, so that it can take its place.
fn part_of(name: &Path) -> Result<(File, TempPath)> {
    let Some(last) = name.file_name() else {
        return Err(Failure::new(Exit::Usage, format!("{} names no file", name.display())));
    };
    let mut prefix = last.to_owned();
    prefix.push(".part-");
    let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = Builder::new().prefix(&prefix).permissions(Permissions::from_mode(MODE)).tempfile_in(dir);
    made.map(tempfile::NamedTempFile::into_parts)
        .map_err(|error| Failure::io(format_args!("cannot create {}", name.display()), &error))
}

/// The thread that writes. It ends with its queue.
struct Writer {
    pieces: mpsc::Sender<Bytes>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    fn new<W: Write>(open: impl FnOnce() -> io::Result<W> + Send + 'static) -> Self {
        let (pieces, mut queue) = mpsc::channel::<Bytes>(QUEUE);
        let (tell, result) = oneshot::channel();
        thread::spawn(move || {
            let write = || {
                let mut out = open()?;
                while let Some(piece) = queue.blocking_recv() {
                    out.write_all(&piece)?;
                }
                out.flush()
            };
            // Nobody waits for it when the command has failed otherwise.
            let _ = tell.send(write());
        });
        Self { pieces, result }
    }

    /// Waits while the queue is full. A failure may show only with a later piece.
    async fn write(&mut self, piece: Bytes) -> io::Result<()> {
        match self.pieces.send(piece).await {
            Ok(()) => Ok(()),
            Err(_) => told((&mut self.result).await),
        }
    }

    async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        told(self.result.await)
    }
}

fn told(result: std::result::Result<io::Result<()>, oneshot::error::RecvError>) -> io::Result<()> {
    result.unwrap_or_else(|_| Err(io::Error::other("nobody writes any longer")))
}
