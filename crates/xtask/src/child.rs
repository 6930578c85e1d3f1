//! Child processes that never outlive the process that started them, and their output.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Interval at which a child's status is polled.
const TICK: Duration = Duration::from_millis(5);

/// Child process that is killed and reaped when it is dropped.
#[derive(Debug)]
pub(crate) struct Reaped(pub(crate) Child);

impl Reaped {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Waits until the child has ended, at most until `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
                _ => return None,
            }
        }
    }

    /// Asks the child to exit (SIGTERM).
    pub(crate) fn terminate(&self) -> Result<(), String> {
        let pid = i32::try_from(self.0.id()).map_err(|error| error.to_string())?;
        // If the child has already ended, its exit status is reported elsewhere.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        Ok(())
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        // These calls fail only if the child has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a pipe in the background until its end.
pub(crate) fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // If reading fails, the bytes read so far are returned.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Forwards the lines of a pipe as they arrive.
pub(crate) fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines.map_while(Result::ok) {
            // Even if the receiver is gone, the pipe must be emptied.
            let _ = tell.send(line);
        }
    });
    told
}
