//! Rules of nftables that lead connections to a port.
//!
//! The table of the rules belongs to the process that made it (flag `owner`), an `nft` that reads from a pipe of this command. The kernel
//! removes the table when that process ends, and the process ends with the pipe, also if this command is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Networks;
use crate::exit::{self, Exit, Failure, Result};

/// Mark of this command's own connections.
pub(in crate::proxy::connect) const MARK: u32 = 0x616e_6162;
/// Networks that are private, or local to this host or to a link.
const PRIVATE: [&str; 14] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/127",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];
/// Places where `nft` is, the search path of programs first.
const NFT: [&str; 3] = ["nft", "/usr/sbin/nft", "/sbin/nft"];
/// Maximum time until the kernel has the rules, and until `nft` has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at the kernel's rules, or at `nft`.
const RETRY: Duration = Duration::from_millis(5);
/// Maximum number of bytes that are kept of a message of `nft`.
const MAX_SAID: u64 = 4_096;

/// Rules that lead connections to a port, as long as this value exists.
#[derive(Debug)]
pub(in crate::proxy::connect) struct Capture {
    nft: Child,
    is_over: Arc<AtomicBool>,
}

impl Capture {
    /// Captures connections: those of this host, and if `port` has no certain address, those that it forwards.
    ///
    /// # Errors
    /// Fails if there is no `nft`, if this process may not change rules, or if the kernel does not accept them.
    pub(in crate::proxy::connect) async fn begin(port: SocketAddr, networks: Networks) -> Result<Self> {
        let begun = tokio::task::spawn_blocking(move || Self::begin_blocking(port, &networks));
        begun.await.map_err(|panicked| Failure::new(Exit::Io, panicked))?
    }

    fn begin_blocking(port: SocketAddr, networks: &Networks) -> Result<Self> {
        let (table, rules) = (table(port), rules(port, networks));
        // An interactive `nft` has no exit status.
        let (mut program, mut refused) = check(&rules)?;
        let begin = Instant::now();
        // A client that was killed just now still has the rules for a moment.
        while refused.is_some() && exists(program, &table) && begin.elapsed() < PATIENCE {
            thread::sleep(RETRY);
            (program, refused) = check(&rules)?;
        }
        if let Some(refused) = refused {
            return Err(match exists(program, &table) {
                true => Failure::new(Exit::BusyPort, format!("another process has the rules of `{table}`"))
                    .or("choose another port"),
                false => refused,
            });
        }
        let mut nft = Command::new(program);
        // A signal from the terminal is for this command, which then ends its connections first.
        nft.arg("--interactive").process_group(0);
        nft.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let nft = nft.spawn().map_err(|error| Failure::io("cannot run nft", &error))?;
        let mut capture = Self { nft, is_over: Arc::default() };
        capture.order(&rules).map_err(|error| Failure::io("nft has ended", &error))?;
        let begin = Instant::now();
        while !exists(program, &table) {
            if begin.elapsed() > PATIENCE {
                return Err(capture.refused());
            }
            thread::sleep(RETRY);
        }
        capture.watch();
        Ok(capture)
    }

    fn order(&mut self, line: &str) -> std::io::Result<()> {
        let Some(pipe) = &mut self.nft.stdin else { return Ok(()) };
        writeln!(pipe, "{line}")?;
        pipe.flush()
    }

    /// Returns the failure that `nft` reports after it was ended.
    fn refused(&mut self) -> Failure {
        self.end();
        let said = self.nft.stderr.take().map(first_line).unwrap_or_default();
        Failure::new(Exit::Io, format!("nft does not keep its rules: {said}"))
            .or("use a newer nft (0.9.9) and kernel (5.12)")
    }

    /// Reports if `nft` ends before it should.
    fn watch(&mut self) {
        let is_over = Arc::clone(&self.is_over);
        let Some(stderr) = self.nft.stderr.take() else { return };
        thread::spawn(move || {
            let said = first_line(stderr);
            if !is_over.load(Ordering::Relaxed) {
                let said = if said.is_empty() { said } else { format!(" ({said})") };
                exit::note(format_args!(
                    "anabranch: nft has ended{said}; connections are no longer captured before a restart"
                ));
            }
        });
    }

    /// Ends `nft`, and waits until the kernel has removed the rules.
    fn end(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.nft.stdin.take());
        let begin = Instant::now();
        while !matches!(self.nft.try_wait(), Ok(Some(_)) | Err(_)) {
            if begin.elapsed() > PATIENCE {
                // The kernel removes the rules of a process that was killed, too.
                let _ = self.nft.kill();
                let _ = self.nft.wait();
                return;
            }
            thread::sleep(RETRY);
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the family and the name of the table for a port.
fn table(port: SocketAddr) -> String {
    format!("{} anabranch_{}", family(port), port.port())
}

fn family(port: SocketAddr) -> &'static str {
    if port.is_ipv4() { "ip" } else { "ip6" }
}

/// Returns the rules, in one line.
fn rules(port: SocketAddr, networks: &Networks) -> String {
    let hooks: &[&str] = if port.ip().is_unspecified() { &["output", "prerouting"] } else { &["output"] };
    let (family, number) = (family(port), port.port());
    let private: Vec<IpNet> = PRIVATE.iter().filter_map(|network| network.parse().ok()).collect();
    let to = |networks: &[IpNet], verdict: &str| match set(port, networks) {
        Some(set) => format!("meta l4proto tcp {family} daddr {{ {set} }} {verdict}; "),
        None => String::new(),
    };
    let captured = format!("redirect to :{number}");
    // The kernel may take packets of a connection that is older than the rules for those of a new one.
    let older = "tcp flags & (fin | syn | rst | ack) != syn return; ";
    let body = [
        format!("meta mark {MARK:#x} return; fib daddr type local return; {older}"),
        to(&networks.spared, "return"),
        to(&networks.captured, &captured),
        to(&private, "return"),
        format!("meta l4proto tcp {captured}; "),
    ];
    let body = body.concat();
    let chain = |hook: &&str| {
        format!("chain {hook} {{ type nat hook {hook} priority -100; policy accept; {body}}}; ")
    };
    let chains: String = hooks.iter().map(chain).collect();
    format!("table {} {{ flags owner; {chains}}}", table(port))
}

/// Returns the networks of the port's version of IP, without those that are part of others; `None` if there are none.
fn set(port: SocketAddr, networks: &[IpNet]) -> Option<String> {
    let (mut v4, mut v6): (Vec<Ipv4Net>, Vec<Ipv6Net>) = (Vec::new(), Vec::new());
    for network in networks {
        match network {
            IpNet::V4(network) => v4.push(*network),
            IpNet::V6(network) => v6.push(*network),
        }
    }
    let names: Vec<String> = match port.is_ipv4() {
        true => Ipv4Net::aggregate(&v4).iter().map(ToString::to_string).collect(),
        false => Ipv6Net::aggregate(&v6).iter().map(ToString::to_string).collect(),
    };
    (!names.is_empty()).then(|| names.join(", "))
}

/// Asks `nft` whether it accepts rules. Returns the program, and the reason if it does not.
///
/// # Errors
/// Fails if there is no `nft`.
fn check(rules: &str) -> Result<(&'static str, Option<Failure>)> {
    for program in NFT {
        let mut nft = Command::new(program);
        nft.args(["--check", "--file", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = match nft.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::io("cannot run nft", &error)),
        };
        // An `nft` that has ended already says why.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(rules.as_bytes()));
        let said = child.stderr.take().map(first_line).unwrap_or_default();
        let status = child.wait().map_err(|error| Failure::io("cannot run nft", &error))?;
        return Ok((program, (!status.success()).then(|| rejected(&said))));
    }
    Err(Failure::new(Exit::Io, "there is no `nft`, which --transparent needs").or("install nftables"))
}

/// Converts a message of `nft`.
fn rejected(said: &str) -> Failure {
    if said.contains("not permitted") {
        return Failure::new(Exit::NotPermitted, "this process may not change the rules of nftables")
            .or("run it as root, or with the capability CAP_NET_ADMIN");
    }
    Failure::new(Exit::Io, format!("nft does not accept the rules: {said}"))
}

/// Returns whether the kernel has a table.
fn exists(program: &str, table: &str) -> bool {
    let mut list = Command::new(program);
    list.args(["list", "table"]).args(table.split(' '));
    list.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    list.status().is_ok_and(|status| status.success())
}

/// Reads until the end, and returns the first line that says something.
fn first_line(stderr: ChildStderr) -> String {
    let mut lines = BufReader::new(stderr.take(MAX_SAID)).lines().map_while(std::io::Result::ok);
    let first = lines.find(|line| !line.trim().is_empty()).unwrap_or_default();
    lines.for_each(drop);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_for_one_version_of_ip() {
        let networks = Networks {
            captured: vec!["10.9.8.0/24".parse().unwrap(), "10.9.8.8/32".parse().unwrap()],
            spared: vec!["2001:db8::/32".parse().unwrap()],
        };
        let v4 = rules("127.0.0.1:1081".parse().unwrap(), &networks);
        assert!(v4.starts_with("table ip anabranch_1081 { flags owner; chain output "), "{v4}");
        assert!(v4.contains("ip daddr { 10.9.8.0/24 } redirect to :1081; "), "{v4}");
        assert!(!v4.contains("prerouting") && !v4.contains("2001:db8"), "{v4}");
        assert!(!v4.contains('\n'));
        let v6 = rules("[::]:1081".parse().unwrap(), &networks);
        assert!(
            v6.contains("ip6 daddr { 2001:db8::/32 } return; ") && v6.contains("hook prerouting"),
            "{v6}"
        );
        // The own mark comes first, and private networks after those that are captured in spite of it.
        let order = ["meta mark", "daddr type local", "10.9.8.0/24", "192.168.0.0/16", "tcp redirect"];
        let places: Vec<_> = order.iter().map(|text| v4.find(text).unwrap()).collect();
        assert!(places.is_sorted(), "{v4}");
    }
}
