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
    /// Socket of a process [default: all that there are]
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Write JSON, an object on each line for each process
    #[arg(long)]
    json: bool,
    /// Go on, with a new state each second: a view in a terminal, lines elsewhere and with --json
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
    let mut shown = Vec::new();
    for reader in &mut readers {
        let (line, report) = reader.next()?;
        shown.push(if options.json { line } else { view::whole(&report) });
    }
    exit::say(shown.join(if options.json { "\n" } else { "\n\n" }))
}

/// Connects to one process, or to all that there are.
fn open(socket: Option<&Path>) -> Result<Vec<Reader>> {
    if let Some(path) = socket {
        let failed = |error| Failure::io(format_args!("cannot read the state at {}", path.display()), &error);
        return Ok(vec![Reader::open(path).map_err(failed)?]);
    }
    // A socket that was left behind refuses connections.
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

/// Prints each state on a line.
fn lines(mut reader: Reader, is_json: bool) -> Result {
    loop {
        let (line, report) = reader.next()?;
        exit::say(if is_json { line } else { view::line(&report) })?;
    }
}
