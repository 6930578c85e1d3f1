//! Child processes that never outlive whoever started them, and what they print.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Interval at which a child is polled for its end.
const TICK: Duration = Duration::from_millis(5);

/// A child that is killed and reaped when it is dropped.
#[derive(Debug)]
pub(crate) struct Reaped(pub(crate) Child);

impl Reaped {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Waits for the end, at most until `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
                _ => return None,
            }
        }
    }

    /// Asks it to end (SIGTERM).
    pub(crate) fn terminate(&self) -> Result<(), String> {
        let pid = i32::try_from(self.0.id()).map_err(|error| error.to_string())?;
        // If it has ended already, its status says more.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        Ok(())
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        // Errors mean that it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Collects everything that a pipe yields until its end.
pub(crate) fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A pipe that breaks has been read as far as possible.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Passes on the lines of a pipe as they arrive.
pub(crate) fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines.map_while(Result::ok) {
            // Nobody waits any longer, but the pipe has to be emptied.
            let _ = tell.send(line);
        }
    });
    told
}
