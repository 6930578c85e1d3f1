//! Child processes, single or in pairs, and their cost.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Error;

/// Time after which a program counts as hanging.
const PATIENCE: Duration = Duration::from_secs(180);

/// Interval between checks whether a program has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Interval between progress messages for a program that takes long.
const SIGN: Duration = Duration::from_secs(5);

/// Cost of a program since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// User and system time, in seconds.
    pub(crate) cpu: f64,
    /// Largest resident set, in bytes.
    pub(crate) rss: f64,
}

impl Cost {
    /// Returns the cost of this process so far, with all its threads.
    pub(crate) fn so_far() -> Result<Self, Error> {
        Self::of(libc::RUSAGE_SELF)
    }

    /// Returns the cost of all child processes that have ended and were waited for, with their own children.
    pub(crate) fn of_children() -> Result<Self, Error> {
        Self::of(libc::RUSAGE_CHILDREN)
    }

    fn of(who: libc::c_int) -> Result<Self, Error> {
        // SAFETY: a `rusage` of zeroes is valid, since it holds only numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer leads to a value that lives until the call returns.
        match unsafe { libc::getrusage(who, &raw mut usage) } {
            0 => Ok(Self::from(&usage)),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }
}

impl From<&libc::rusage> for Cost {
    fn from(usage: &libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        // Linux counts `ru_maxrss` in KiB.
        Self { cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime), rss: usage.ru_maxrss as f64 * 1024.0 }
    }
}

/// Running program. It is killed if it is dropped before it has ended.
pub(crate) struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    ended: bool,
    signs: Option<Signs>,
}

/// Progress messages that are printed while a program runs.
struct Signs {
    doing: String,
    said: Duration,
}

impl Signs {
    /// Returns the progress line for a program that has run for `elapsed`, if one is due.
    fn due(&mut self, elapsed: Duration) -> Option<String> {
        (elapsed >= self.said + SIGN).then(|| {
            self.said = elapsed;
            format!("  {}: {} s so far", self.doing, elapsed.as_secs())
        })
    }
}

impl Program {
    /// Starts `command` with its input and output connected to this process.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Error> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("a program without output")?;
        Ok(Self { child, output: BufReader::new(output), ended: false, signs: None })
    }

    /// Prints a progress message with `what` to standard error every few seconds until the program ends.
    pub(crate) fn doing(mut self, what: String) -> Self {
        self.signs = Some(Signs { doing: what, said: Duration::ZERO });
        self
    }

    /// Returns the next line of the program's output.
    pub(crate) fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Closes the program's input, which ends a server, and waits for its end. Returns the rest of its
    /// output, and its cost.
    pub(crate) fn end(mut self) -> Result<(String, Cost), Error> {
        drop(self.child.stdin.take());
        let cost = self.wait()?;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        Ok((rest, cost))
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the program has ended.
    ///
    /// # Errors
    /// Fails if it has failed.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Error> {
        let Some((status, _)) = reap(self.child.id())? else { return Ok(false) };
        self.ended = true;
        if status == 0 { Ok(true) } else { Err(format!("a program failed: {}", ending(status)).into()) }
    }

    /// Asks the program to end (SIGTERM), and waits for its end. Returns its cost.
    pub(crate) fn terminate(mut self) -> Result<Cost, Error> {
        // SAFETY: the call has no pointers, and the child was not waited for, so that its ID is its own.
        if unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<Cost, Error> {
        let begin = Instant::now();
        loop {
            if let Some((status, cost)) = reap(self.child.id())? {
                self.ended = true;
                return if status == 0 {
                    Ok(cost)
                } else {
                    Err(format!("a program failed: {}", ending(status)).into())
                };
            }
            if let Some(sign) = self.signs.as_mut().and_then(|signs| signs.due(begin.elapsed())) {
                eprintln!("{sign}");
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("a program did not end within {PATIENCE:?}").into());
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.ended {
            // The program may have ended by itself meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs a server, in a child process, until the input of this process ends.
pub(crate) fn until_input_ends(server: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An error ends the server, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    runtime.block_on(async {
        tokio::select! {
            result = server => result,
            _ = end => Ok(()),
        }
    })
}

fn ending(status: i32) -> String {
    use std::os::unix::process::ExitStatusExt;
    std::process::ExitStatus::from_raw(status).to_string()
}

/// Returns the wait status and the cost of the child `pid` if it has ended.
fn reap(pid: u32) -> Result<Option<(i32, Cost)>, Error> {
    let mut status = 0;
    // SAFETY: a `rusage` of zeroes is valid, since it holds only numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers lead to values that live until the call returns.
    let reaped = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, libc::WNOHANG, &raw mut usage) };
    match reaped {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error().into()),
        _ => Ok(Some((status, Cost::from(&usage)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_program_ends_when_its_input_does() {
        let mut program = shell("echo ready; cat; echo over");
        assert_eq!(program.line().unwrap(), "ready");
        let (rest, cost) = program.end().unwrap();
        assert_eq!(rest, "over\n");
        assert!(cost.rss > 0.0);
    }

    /// Checks that a program that runs for ninety seconds has a progress message every five seconds.
    #[test]
    fn a_program_that_takes_long_gives_signs() {
        let mut signs = Signs { doing: "quinn".to_owned(), said: Duration::ZERO };
        let said: Vec<String> =
            (0..9_000).filter_map(|at| signs.due(Duration::from_millis(at * 10))).collect();
        assert_eq!((said.len(), said[0].as_str()), (17, "  quinn: 5 s so far"));
        assert_eq!(said[16], "  quinn: 85 s so far");
    }

    #[test]
    fn a_program_ends_when_it_is_asked_to() {
        let mut program = shell("trap 'exit 0' TERM; echo ready; while true; do sleep 0.01; done");
        assert_eq!(program.line().unwrap(), "ready");
        assert!(program.id() > 0);
        assert!(program.terminate().unwrap().rss > 0.0);
        assert!(shell("trap 'exit 3' TERM; echo; while true; do sleep 0.01; done").line().is_ok());
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let error = shell("exit 3").end().unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn work_costs_time() {
        let (_, busy) = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").end().unwrap();
        let (_, idle) = shell("true").end().unwrap();
        assert!(busy.cpu > idle.cpu, "{busy:?} {idle:?}");
    }
}
