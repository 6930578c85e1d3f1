//! Client without a `--path` option, on a host that changes: its single path follows the routing table.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::network::{Link, NAME, SERVER, SERVER_V6, hosts, run as ip};
use super::scene::{FIRST, FLOW, PATIENCE, PORT, SECOND, Scene, content};
use crate::child::{Reaped, collect};

/// Number of bytes that must arrive before the change.
const BEFORE: usize = 3_000_000;
/// Maximum time without data that a change may cause.
const LONGEST_GAP: Duration = Duration::from_millis(200);
/// Maximum number of bytes that may arrive over a link that is not in use.
const STRAY: u64 = 30_000;
/// Maximum number of measurements of a gap. A busy machine causes gaps as well.
const TRIES: usize = 3;

/// Function that changes the host's interfaces or addresses.
type Change = fn() -> Result<(), String>;

/// Scenes in order: the name, the preparation of the host, and the change during the transfer.
pub(super) const SCENES: [(&str, Change, Change); 6] = [
    ("link-down", nothing, || FIRST.down()),
    ("new-address", nothing, || FIRST.readdress(1, 7)),
    ("link-and-address", nothing, link_and_address),
    ("ipv4-to-ipv6", nothing, to_ipv6),
    ("ipv6-to-ipv4", begin_with_ipv6, to_ipv4),
    ("silent-link", nothing, || FIRST.silence()),
];

fn nothing() -> Result<(), String> {
    Ok(())
}

/// Takes the first interface down and replaces the second one's address.
fn link_and_address() -> Result<(), String> {
    SECOND.readdress(1, 7)?;
    FIRST.down()
}

fn to_ipv6() -> Result<(), String> {
    SECOND.add_v6()?;
    FIRST.flush_v4()?;
    SECOND.flush_v4()
}

fn begin_with_ipv6() -> Result<(), String> {
    FIRST.add_v6()?;
    FIRST.flush_v4()?;
    SECOND.flush_v4()
}

fn to_ipv4() -> Result<(), String> {
    SECOND.reset()?;
    FIRST.down()
}

impl Scene {
    /// Runs one of [`SCENES`]. Returns a description of the gaps without data.
    pub(super) fn followed(&self, prepare: Change, change: Change) -> Result<String, String> {
        let mut gaps = Vec::new();
        while gaps.len() < TRIES {
            [FIRST, SECOND].iter().try_for_each(|link| link.reset())?;
            prepare()?;
            let gap = self.gap(&[], change)?;
            gaps.push(format!("{} ms", gap.as_millis()));
            if gap <= LONGEST_GAP {
                return Ok(format!("nothing came for {}", gaps.join(", ")));
            }
        }
        Err(format!("nothing came for {}", gaps.join(", ")))
    }

    /// Checks that with `--no-migration` no data arrives over the other link, and that all data arrives once
    /// the first link is up again.
    pub(super) fn forbidden(&self) -> Result<String, String> {
        [FIRST, SECOND].iter().try_for_each(|link| link.reset())?;
        let gap = self.gap(&["--no-migration"], || {
            FIRST.down()?;
            let before = SECOND.received()?;
            thread::sleep(Duration::from_secs(2));
            let came = SECOND.received()?.saturating_sub(before);
            FIRST.up()?;
            if came > STRAY { Err(format!("{came} bytes came over the other link")) } else { Ok(()) }
        })?;
        Ok(format!("nothing came for {} ms", gap.as_millis()))
    }

    /// Returns the longest time without data after `change`, which is called during a transfer. Before the
    /// change, all data must arrive over the first link, which the routing table prefers.
    fn gap(&self, options: &[&str], change: impl Fn() -> Result<(), String>) -> Result<Duration, String> {
        let elsewhere = SECOND.received()?;
        let mut command = Command::new(&self.program);
        command.args(["get", "--insecure", "--output", "-"]).args(options);
        command.arg(format!("https://{NAME}:{PORT}/flow"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Reaped::spawn(&mut command).map_err(|error| error.to_string())?;
        let complaints = collect(child.0.stderr.take());
        let mut pipe = child.0.stdout.take().ok_or("no standard output")?;
        let (tell, told) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(len @ 1..) = pipe.read(&mut buffer) {
                let _ = tell.send((Instant::now(), buffer[..len].to_vec()));
            }
        });
        let (mut fetched, mut last, mut longest, mut changed) =
            (Vec::new(), Instant::now(), Duration::ZERO, false);
        loop {
            match told.recv_timeout(PATIENCE) {
                Ok((at, bytes)) => {
                    if changed {
                        longest = longest.max(at - last);
                    }
                    last = at;
                    fetched.extend_from_slice(&bytes);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err("nothing comes any longer".to_owned()),
            }
            if !changed && fetched.len() > BEFORE {
                changed = true;
                let came = SECOND.received()?.saturating_sub(elsewhere);
                if came > STRAY {
                    return Err(format!("{came} bytes came over the other link although nothing was wrong"));
                }
                change()?;
            }
        }
        let status = child.wait_until(Instant::now() + PATIENCE);
        drop(child);
        let complaints = complaints.join().unwrap_or_default();
        match status {
            Some(status) if status.success() && fetched == content(FLOW) => Ok(longest),
            Some(status) if status.success() => Err("it arrived with other content".to_owned()),
            status => Err(format!("{status:?}: {}", complaints.trim())),
        }
    }

    /// Checks that errors which the system reports at once also end the command at once.
    pub(super) fn unreachable(&self) -> Result<String, String> {
        [FIRST, SECOND].iter().try_for_each(|link| link.reset())?;
        let mut told = Vec::new();
        for (url, words) in [
            (format!("https://{SERVER}:{}/flow", PORT + 1), "refused"),
            ("https://192.0.2.1/flow".to_owned(), "unreachable"),
        ] {
            let begun = Instant::now();
            let mut command = Command::new(&self.program);
            command.args(["get", "--insecure", "--output", "-", &url]).stdin(Stdio::null());
            let output = command.output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            if !said.contains(words) || begun.elapsed() > Duration::from_secs(3) {
                return Err(format!("{url}: after {} ms: {said}", begun.elapsed().as_millis()));
            }
            told.push(format!("{words} after {} ms", begun.elapsed().as_millis()));
        }
        Ok(told.join(", "))
    }
}

/// Defines one host name for both addresses of the server.
pub(super) fn name_server(folder: &std::path::Path) -> Result<(), String> {
    let file = folder.join("hosts");
    fs::write(&file, format!("{SERVER} {NAME}\n{SERVER_V6} {NAME}\n")).map_err(|error| error.to_string())?;
    hosts(&file)
}

impl Link {
    /// Restores the link's initial state.
    fn reset(self) -> Result<(), String> {
        ip("ip", &["address", "flush", "dev", &self.name()])?;
        ip("ip", &["address", "add", &self.address(1, true), "dev", &self.name()])?;
        self.up()?;
        self.speak()
    }

    /// Removes the interface's IPv4 addresses and their routes.
    fn flush_v4(self) -> Result<(), String> {
        ip("ip", &["-4", "address", "flush", "dev", &self.name()])
    }

    /// Adds an IPv6 address and a route to the server to the interface.
    fn add_v6(self) -> Result<(), String> {
        let (own, gateway) = (self.v6(1), self.v6(254));
        ip("ip", &["address", "add", &format!("{own}/64"), "dev", &self.name(), "nodad"])?;
        ip("ip", &["-6", "route", "replace", SERVER_V6, "via", &gateway, "dev", &self.name()])
    }
}
