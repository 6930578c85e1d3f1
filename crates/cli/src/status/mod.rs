//! `anabranch status`: the state of tunnels that run on this host.

mod live;
pub(crate) mod page;
pub(crate) mod paths;
pub(crate) mod place;
pub(crate) mod publish;
pub(crate) mod rates;
mod read;
pub(crate) mod report;
mod view;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use self::read::Reader;
use crate::exit::{self, Exit, Failure, Result};

/// Show paths, tunnels and users of the tunnels that run on this host
///
/// `anabranch proxy connect`, `anabranch forward`, `anabranch vpn connect` and `anabranch proxy serve` publish their state on
/// Unix sockets that only their own user can read. Root sees those of services, too
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Status {
    /// Socket of a process [default: those of all processes]
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Write JSON, an object on each line for each process
    #[arg(long)]
    json: bool,
    /// Show a new state each second, as a view in a terminal; as lines if the output is no terminal, or with --json
    #[arg(long)]
    live: bool,
}

pub(crate) fn run(options: &Status) -> Result {
    let mut readers = open(options.socket.as_deref())?;
    if options.live {
        let reader = readers.pop().filter(|_| readers.is_empty()).ok_or_else(|| several(&readers))?;
        return match std::io::stdout().is_terminal() && !options.json {
            true => live::run(reader),
            false => lines(reader, options.json),
        };
    }
    exit::say(once(&mut readers, options.json)?)
}

/// Returns the text of one report of each process. If some fail, prints their failures and returns the text of the others.
///
/// # Errors
/// Fails if all fail.
fn once(readers: &mut [Reader], is_json: bool) -> Result<String> {
    let (mut shown, mut failures) = (Vec::new(), Vec::new());
    for reader in readers {
        match reader.next() {
            Ok((line, report)) => shown.push(if is_json { line } else { view::whole(&report) }),
            Err(failure) => failures.push(failure),
        }
    }
    let last = failures.pop();
    failures.iter().for_each(Failure::say);
    match last {
        Some(last) if shown.is_empty() => return Err(last),
        last => last.iter().for_each(Failure::say),
    }
    Ok(shown.join(if is_json { "\n" } else { "\n\n" }))
}

/// Connects to the process at `socket`, or to all processes whose sockets this user can see.
fn open(socket: Option<&Path>) -> Result<Vec<Reader>> {
    if let Some(path) = socket {
        let failed = |error| Failure::io(format_args!("cannot read the state at {}", path.display()), &error);
        return Ok(vec![Reader::open(path).map_err(failed)?]);
    }
    // The socket of a process that has ended refuses connections.
    let readers: Vec<_> = place::sockets().iter().filter_map(|path| Reader::open(path).ok()).collect();
    match readers.is_empty() {
        true => Err(Failure::new(Exit::Io, "no tunnel runs here, or it belongs to another user")
            .or("start one, or name its socket")),
        false => Ok(readers),
    }
}

fn several(others: &[Reader]) -> Failure {
    let names: Vec<_> = others.iter().map(|reader| reader.path().display().to_string()).collect();
    Failure::new(Exit::Usage, format!("several tunnels run here, {} among them", names.join(", ")))
        .or("name the socket of one")
}

/// Prints each report on a line.
fn lines(mut reader: Reader, is_json: bool) -> Result {
    loop {
        let (line, report) = reader.next()?;
        exit::say(if is_json { line } else { view::line(&report) })?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Reads from processes that send these bytes, each on its own socket.
    fn read(said: &[&str]) -> Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut readers = Vec::new();
        for (n, said) in said.iter().enumerate() {
            let path = dir.path().join(n.to_string());
            let listener = UnixListener::bind(&path).unwrap();
            readers.push(Reader::open(&path).unwrap());
            listener.accept().unwrap().0.write_all(said.as_bytes()).unwrap();
        }
        once(&mut readers, true)
    }

    #[test]
    fn a_process_that_fails_does_not_hide_the_others() {
        let (one, two) = ("{\"pid\":1}\n", "{\"pid\":2}\n");
        assert_eq!(read(&[one, "", "junk\n", two]).unwrap(), "{\"pid\":1}\n{\"pid\":2}");
        assert_eq!(read(&["", "junk\n"]).unwrap_err().exit(), Exit::Protocol);
    }
}
