//! Connection to another process that publishes its state.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::report::Report;
use crate::exit::{Exit, Failure, Result};

/// Maximum length of a report, in bytes.
const MAX_LINE: u64 = 4 << 20;
/// Maximum time until the next report.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connection to a process that publishes its state.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next report. Returns its line of JSON, and the report.
    pub(super) fn next(&mut self) -> Result<(String, Report)> {
        let name = self.path.display();
        let mut line = String::new();
        let read = (&mut self.stream).take(MAX_LINE).read_line(&mut line);
        match read {
            Ok(0) => {
                let what = format!("{name}: the process has ended, or has too many readers");
                return Err(Failure::new(Exit::Io, what));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Failure::new(Exit::Timeout, format!("{name}: the process does not respond")));
            }
            Err(error) => return Err(Failure::io(format_args!("cannot read the state at {name}"), &error)),
            Ok(_) => {}
        }
        line.truncate(line.trim_end().len());
        let report = serde_json::from_str(&line);
        let report = report
            .map_err(|_| Failure::new(Exit::Protocol, format!("{name}: this is no state of a tunnel")))?;
        Ok((line, report))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Reads a report from a process that sends the bytes `said`.
    fn read(said: Vec<u8>) -> Result<(String, Report)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let writing = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&said);
        });
        let mut reader = Reader::open(&path).unwrap();
        let read = reader.next();
        drop(reader);
        writing.join().unwrap();
        read
    }

    #[test]
    fn lines_of_max_line_bytes_are_read() {
        let (line, report) = read(b"{\"pid\":7,\"future\":[]}\n".to_vec()).unwrap();
        assert_eq!((line.as_str(), report.pid), ("{\"pid\":7,\"future\":[]}", 7));
        assert_eq!(read(Vec::new()).unwrap_err().exit(), Exit::Io);
        assert_eq!(read(b"hello\n".to_vec()).unwrap_err().exit(), Exit::Protocol);
        let endless = vec![b' '; 2 * MAX_LINE as usize];
        assert_eq!(read(endless).unwrap_err().exit(), Exit::Protocol);
    }
}
