//! Server with files, and a client that fetches them while interfaces change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::network::{Link, SERVER, at_the_server, black_hole, fill_hole};
use crate::child::{Reaped, collect, lines};

pub(super) const FIRST: Link = Link(1);
pub(super) const SECOND: Link = Link(2);
pub(super) const PORT: u16 = 4433;
/// Size in bytes of the file that is fetched over a single changing path.
pub(super) const FLOW: usize = 12_000_000;
/// Size in bytes of the file that is fetched over changing interfaces. It takes 8 s over both links.
const LONG: usize = 50_000_000;
/// Size in bytes of the file that shows how long a connection takes to start.
const SHORT: usize = 1000;
/// Number of bytes that shows that a path carries data. It exceeds all control traffic.
const CARRIES: u64 = 300_000;
/// Time within which the client must follow a change of interfaces. It retries a path after a second.
const FOLLOWS: Duration = Duration::from_secs(8);
/// Maximum duration of a transfer.
pub(super) const PATIENCE: Duration = Duration::from_secs(35);
/// Time within which a file must arrive although packets to the first interface are lost: 250 ms, plus the
/// time of a program on a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// Server with its files, and a folder for fetched files.
pub(super) struct Scene {
    pub(super) program: PathBuf,
    folder: PathBuf,
    _server: Reaped,
}

/// Running `anabranch get`.
struct Fetching {
    child: Reaped,
    said: JoinHandle<String>,
    complaints: JoinHandle<String>,
}

impl Scene {
    pub(super) fn set(program: &Path, folder: &Path) -> Result<Self, String> {
        let www = folder.join("www");
        fs::create_dir(&www).map_err(|error| error.to_string())?;
        for (name, len) in [("long", LONG), ("short", SHORT), ("flow", FLOW)] {
            fs::write(www.join(name), content(len)).map_err(|error| format!("{name}: {error}"))?;
        }
        let mut command = at_the_server(program);
        command.args(["serve", "--listen", &format!("[::]:{PORT}"), "--root"]).arg(&www);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Reaped::spawn(&mut command).map_err(|error| format!("nsenter: {error}"))?;
        let said = lines(server.0.stdout.take());
        while !said.recv_timeout(FOLLOWS).map_err(|_| "the server does not start")?.starts_with("listening") {
        }
        Ok(Self { program: program.to_owned(), folder: folder.to_owned(), _server: server })
    }

    fn fetch(&self, name: &str, options: &[&str]) -> Result<Fetching, String> {
        let mut command = Command::new(&self.program);
        command.args(["get", "--insecure", "--json", "-", "--output"]).arg(self.folder.join(name));
        command.args(options);
        command.arg(format!("https://{SERVER}:{PORT}/{name}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Reaped::spawn(&mut command).map_err(|error| error.to_string())?;
        let (said, complaints) = (collect(child.0.stdout.take()), collect(child.0.stderr.take()));
        Ok(Fetching { child, said, complaints })
    }

    /// Checks that the fetched file has the served content.
    fn compare(&self, name: &str, len: usize) -> Result<(), String> {
        let fetched = fs::read(self.folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        if fetched == content(len) { Ok(()) } else { Err(format!("{name} arrived with other content")) }
    }

    /// Drops the server's packets to the first interface, and checks that the connection begins on the second
    /// one.
    pub(super) fn silent_first(&self) -> Result<String, String> {
        let silent = FIRST.address(1, false);
        black_hole(&silent)?;
        let begun = Instant::now();
        let fetching = self.fetch("short", &["--path", &FIRST.name(), "--path", &SECOND.name()])?;
        let facts = fetching.end(PATIENCE);
        let took = begun.elapsed();
        fill_hole(&silent)?;
        let facts = facts?;
        self.compare("short", SHORT)?;
        let local = facts["paths"][0]["local"].as_str().unwrap_or_default().to_owned();
        if !local.starts_with(&SECOND.address(1, false)) {
            return Err(format!("it began at {local}"));
        }
        if took > SOON {
            return Err(format!("it took {took:?}"));
        }
        Ok(format!("began on {} and was done after {} ms", SECOND.name(), took.as_millis()))
    }

    /// Removes interfaces, restores them and changes their addresses during one transfer.
    pub(super) fn interfaces_change(&self) -> Result<String, String> {
        let mut fetching = self.fetch("long", &["--multipath"])?;
        let mut told = Vec::new();
        let mut step = |what: &str, link: Link| {
            let took = fetching.carries(link).map_err(|why| format!("{what}: {why}"))?;
            told.push(format!("{what} {} ms", took.as_millis()));
            Ok::<_, String>(())
        };
        step("first", FIRST)?;
        step("second opened", SECOND)?;
        FIRST.down()?;
        step("second goes on", SECOND)?;
        FIRST.up()?;
        step("first is back", FIRST)?;
        SECOND.readdress(1, 3)?;
        step("second at a new address", SECOND)?;
        let facts = fetching.end(PATIENCE)?;
        self.compare("long", LONG)?;
        // There must be one path on each interface, the second at its new address. No path may have migrated
        // to an address that another one uses.
        let open = facts["paths"].as_array().into_iter().flatten().filter(|path| path["closed"].is_null());
        let mut at: Vec<_> =
            open.filter_map(|path| path["local"].as_str()?.split_once(':').map(|(ip, _)| ip)).collect();
        at.sort_unstable();
        match at == [FIRST.address(1, false), SECOND.address(3, false)] {
            true => Ok(told.join(", ")),
            false => Err(format!("paths at {at:?}: {facts}")),
        }
    }
}

impl Fetching {
    /// Measures the time until data has arrived on an interface.
    fn carries(&mut self, link: Link) -> Result<Duration, String> {
        let (begun, before) = (Instant::now(), link.received()?);
        loop {
            if link.received()? > before + CARRIES {
                return Ok(begun.elapsed());
            }
            if let Ok(Some(status)) = self.child.0.try_wait() {
                return Err(format!("the transfer is over, with {status}"));
            }
            if begun.elapsed() > FOLLOWS {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let more = link.received()?.saturating_sub(before);
        Err(format!("only {more} bytes came on {} in {} s", link.name(), FOLLOWS.as_secs()))
    }

    /// Waits for the program's end and returns its report.
    fn end(mut self, patience: Duration) -> Result<Value, String> {
        let status = self.child.wait_until(Instant::now() + patience);
        drop(self.child);
        let (said, complaints) =
            (self.said.join().unwrap_or_default(), self.complaints.join().unwrap_or_default());
        match status {
            Some(status) if status.success() => {
                serde_json::from_str(&said).map_err(|error| error.to_string())
            }
            Some(status) => Err(format!("{status}: {}", complaints.trim())),
            None => Err(format!("it takes longer than {} s", patience.as_secs())),
        }
    }
}

/// Returns pseudorandom bytes that depend on their position.
pub(super) fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
