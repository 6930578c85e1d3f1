//! This library in the guest: server and client of the program's `perf` command, over the kernel's UDP.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::REST;
use super::topology::{PORT, SERVER, Topology, client_address};
use crate::order::{Order, Report, Work};

/// Maximum number of bytes of a program's error output that are read.
const MAX_QUOTE: u64 = 300;

/// Downloads the order's bytes and reports the time from the client's start to the last byte. In virtual time
/// the processor is infinitely fast, so that the start of the programs takes no time.
pub(super) fn run(order: &Order, topology: &mut Topology) -> io::Result<Report> {
    let Work::Download { bytes } = order.work else {
        return Err(io::Error::other("the library can only download in the guest"));
    };
    topology.server.enter()?;
    let server = Ending(perf("server")?.args(["--listen", &format!("{SERVER}:{PORT}")]).spawn()?);
    thread::sleep(REST);
    topology.client.enter()?;
    let mut command = perf("client")?;
    command.args(["--connect", &format!("{SERVER}:{PORT}"), "--insecure", "--json", "--download"]);
    command.arg(bytes.to_string());
    if order.paths.len() > 1 {
        (0..order.paths.len()).for_each(|path| {
            command.args(["--path", &client_address(order, path).to_string()]);
        });
    }
    let begin = Instant::now();
    let mut client = Ending(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let mut line = String::new();
    if let Some(output) = client.0.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let took = begin.elapsed();
    if line.is_empty() {
        return Err(io::Error::other(complaint(&mut client.0)?));
    }
    drop(server);
    let last = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    Ok(Report { last_byte_ns: Some(last), ..Report::default() })
}

/// Returns this program with its command `perf` and the subcommand `command`.
fn perf(command: &str) -> io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    program.args(["perf", command]).env_clear().env("HOME", "/tmp");
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(program)
}

/// Returns the last line of the first [`MAX_QUOTE`] bytes of a program's error output.
fn complaint(program: &mut Child) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    if let Some(errors) = program.stderr.take() {
        errors.take(MAX_QUOTE).read_to_string(&mut text)?;
    }
    Ok(text.lines().last().unwrap_or("perf gave no result").to_owned())
}

/// Child process that is killed when this value is dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Errors do not matter: the process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
