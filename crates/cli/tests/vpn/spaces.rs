//! Support: network namespaces, the links between them, and the processes in them.
//!
//! ```text
//! client  10.71.1.2 ── 10.71.1.1  proxy  10.70.0.1 ── 10.70.0.2  target
//!         10.71.2.2 ── 10.71.2.1         fd70::1      fd70::2
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_testkit::certificates::Files;
use nix::sched::{CloneFlags, setns};
use tempfile::TempDir;

/// Maximum time of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The target's addresses.
pub const TARGET: [&str; 2] = ["10.70.0.2", "fd70::2"];
/// Name of the proxy.
pub const PROXY: &str = "proxy.test";
/// Configuration of the client's resolver before the VPN.
pub const RESOLVER: &str = "search before.example\nnameserver 10.70.0.53\n";

/// Three namespaces, which are removed when this value is dropped.
pub struct Spaces {
    dir: TempDir,
    name: String,
}

impl Spaces {
    /// Creates the namespaces; `None` if this process may not.
    pub fn make(test: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let spaces =
            Self { dir: tempfile::tempdir().unwrap(), name: format!("ab{}x{number}", std::process::id()) };
        let made = Command::new("ip").args(["netns", "add", &spaces.space("c")]).output();
        if !made.is_ok_and(|output| output.status.success()) || !fs::exists("/dev/net/tun").unwrap_or(false) {
            eprintln!("skipped: {test}: no right to make network namespaces, or no TUN device");
            return None;
        }
        spaces.build();
        Some(spaces)
    }

    fn build(&self) {
        let (c, s, t) = (self.space("c"), self.space("s"), self.space("t"));
        ip(&format!("netns add {s}"));
        ip(&format!("netns add {t}"));
        for space in [&c, &s, &t] {
            ip(&format!("-n {space} link set lo up"));
        }
        for (link, near, far) in [("wifi", &c, &s), ("lte", &c, &s), ("wan", &s, &t)] {
            let (one, other) = (format!("{link}0"), format!("{link}1"));
            ip(&format!("-n {near} link add {one} type veth peer name {other} netns {far}"));
            ip(&format!("-n {near} link set {one} up"));
            ip(&format!("-n {far} link set {other} up"));
        }
        for (space, device, address) in [
            (&c, "wifi0", "10.71.1.2/24"),
            (&s, "wifi1", "10.71.1.1/24"),
            (&c, "lte0", "10.71.2.2/24"),
            (&s, "lte1", "10.71.2.1/24"),
            (&s, "wan0", "10.70.0.1/24"),
            (&t, "wan1", "10.70.0.2/24"),
            (&s, "wan0", "fd70::1/64"),
            (&t, "wan1", "fd70::2/64"),
        ] {
            let quick = if address.contains(':') { " nodad" } else { "" };
            ip(&format!("-n {space} address add {address} dev {device}{quick}"));
        }
        ip(&format!("-n {c} route add default via 10.71.1.1"));
        ip(&format!("-n {c} route add default via 10.71.2.1 metric 100"));
        ip(&format!("-n {t} route add default via 10.70.0.1"));
        ip(&format!("-n {t} route add default via fd70::1"));
        self.within("s", || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        // `ip netns exec` mounts this file over the host's file.
        fs::create_dir_all(format!("/etc/netns/{c}")).unwrap();
        fs::write(self.resolver_path(), RESOLVER).unwrap();
        self.name_proxy("10.71.1.1");
        Files::new(self.dir.path(), &["10.71.1.1", PROXY]);
        fs::write(self.path("token"), "alice.tea\n").unwrap();
        let hash = self.hash();
        fs::write(self.path("users.toml"), format!("[[user]]\nname = \"alice\"\nsecret = \"{hash}\"\n"))
            .unwrap();
    }

    fn hash(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        let hashing = command.args(["proxy", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut hashing = hashing.unwrap();
        hashing.stdin.take().unwrap().write_all(b"tea").unwrap();
        String::from_utf8(hashing.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    }

    /// Returns the name of the client's (`c`), the proxy's (`s`) or the target's (`t`) namespace.
    pub fn space(&self, which: &str) -> String {
        format!("{}{which}", self.name)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gives the client another address for the name [`PROXY`].
    pub fn name_proxy(&self, address: &str) {
        let hosts = format!("/etc/netns/{}/hosts", self.space("c"));
        fs::write(hosts, format!("127.0.0.1 localhost\n{address} {PROXY}\n")).unwrap();
    }

    fn resolver_path(&self) -> String {
        format!("/etc/netns/{}/resolv.conf", self.space("c"))
    }

    /// Waits until both links have link-local addresses and nothing changes for 100 ms. Returns the client's resolvers,
    /// rules, routes and addresses.
    pub fn situation(&self) -> String {
        let begin = Instant::now();
        let mut before = self.see();
        loop {
            thread::sleep(Duration::from_millis(100));
            let seen = self.see();
            if seen == before && !seen.contains("tentative") && seen.matches("inet6 fe80").count() >= 2 {
                return seen;
            }
            assert!(begin.elapsed() < PATIENCE, "{seen}");
            before = seen;
        }
    }

    fn see(&self) -> String {
        let mut seen = fs::read_to_string(self.resolver_path()).unwrap();
        for what in ["rule", "-6 rule", "route show table all", "-6 route show table all", "address"] {
            let args = format!("-n {} {what}", self.space("c"));
            let output = Command::new("ip").args(args.split(' ')).output().unwrap();
            seen.push_str(&String::from_utf8(output.stdout).unwrap());
        }
        // The lifetimes of such routes count down, so their lines change.
        seen.lines().filter(|line| !line.contains("expires")).collect::<Vec<_>>().join("\n")
    }

    /// Runs `act` on a thread in a namespace, and waits for its result.
    pub fn within<R: Send>(&self, which: &str, act: impl FnOnce() -> R + Send) -> R {
        let space = self.space(which);
        thread::scope(|scope| {
            scope
                .spawn(move || {
                    enter(&space);
                    act()
                })
                .join()
                .unwrap()
        })
    }

    /// Starts a thread in a namespace that runs `act`, until the test ends.
    pub fn serve_within(&self, which: &str, act: impl FnOnce() + Send + 'static) {
        let space = self.space(which);
        thread::spawn(move || {
            enter(&space);
            act();
        });
    }

    /// Returns a command of the program in a namespace.
    pub fn command(&self, which: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(which), env!("CARGO_BIN_EXE_anabranch")]).args(args);
        // The proxy publishes its state in another directory than the VPN.
        let runtime = if which == "c" { self.path("run") } else { self.path("run-of-proxy") };
        command.current_dir(self.dir.path()).env("RUNTIME_DIRECTORY", runtime).stdin(Stdio::null());
        command
    }

    /// Runs a command that must end by itself.
    pub fn run(&self, which: &str, args: &[&str]) -> Output {
        self.command(which, args).output().unwrap()
    }

    /// Starts a command whose standard error goes to the file `name`.
    pub fn start(&self, which: &str, name: &str, args: &[&str]) -> Process {
        let mut command = self.command(which, args);
        command.stdout(Stdio::piped()).stderr(File::create(self.path(name)).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Process { child, stdout, log: self.path(name) }
    }

    /// Starts the proxy.
    pub fn proxy(&self) -> Process {
        self.proxy_at("0.0.0.0:4433", &["--announce", "10.71.2.1"])
    }

    /// Starts the proxy at an address.
    pub fn proxy_at(&self, listen: &str, more: &[&str]) -> Process {
        let args = "proxy serve --cert cert.pem --key key.pem --users users.toml --allow 10.70.0.0/16 --allow fd70::/16 \
                    --vpn-pool 10.9.0.0/24 --vpn-pool fd09::/64";
        let args: Vec<_> =
            args.split_whitespace().chain(["--listen", listen]).chain(more.iter().copied()).collect();
        let mut process = self.start("s", "proxy.log", &args);
        let _: SocketAddr = process.said("listening ").parse().unwrap();
        process
    }

    /// Returns the arguments of `anabranch vpn connect` with both links.
    pub fn vpn<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let args = ["vpn", "connect", "https://10.71.1.1:4433", "--token-file", "token", "--ca", "cert.pem"];
        [&args[..], &["--path", "wifi0", "--path", "lte0"], more].concat()
    }

    /// Starts the VPN, and waits until it is connected.
    pub fn connect(&self, more: &[&str]) -> Process {
        self.connect_as(&self.vpn(more))
    }

    /// Starts a VPN with these arguments, and waits until it is there.
    pub fn connect_as(&self, args: &[&str]) -> Process {
        let mut process = self.start("c", "vpn.log", args);
        assert_eq!(process.said("connected "), "anabranch0 10.9.0.2 fd09::2");
        process
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for which in ["c", "s", "t"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.space(which)]).output();
        }
        let _ = fs::remove_dir_all(format!("/etc/netns/{}", self.space("c")));
        // This fails, without effect, if another namespace has files there.
        let _ = fs::remove_dir("/etc/netns");
    }
}

/// Calls `look` until it succeeds.
pub fn eventually<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(what) => assert!(begin.elapsed() < PATIENCE, "{what}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn enter(space: &str) {
    let file = File::open(format!("/run/netns/{space}")).unwrap();
    setns(file, CloneFlags::CLONE_NEWNET).unwrap();
}

/// Runs `ip` with these arguments.
pub fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A process that is killed when dropped.
pub struct Process {
    child: Child,
    /// Standard output, which stays open because a program that cannot print ends.
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Process {
    /// Returns the next line on standard output that begins with `prefix`, without the prefix.
    pub fn said(&mut self, prefix: &str) -> String {
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            if let Some(rest) = line.trim_end().strip_prefix(prefix) {
                return rest.to_owned();
            }
            assert_ne!(line, "", "'{prefix}' was not said: {}", self.log());
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Sends SIGKILL, and waits until the process has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Tells the process to read its configuration again, and returns the log once it contains `wanted`.
    pub fn reload(&self, wanted: &str) -> String {
        let before = self.log().len();
        self.signal("-HUP");
        eventually(|| {
            let log = self.log()[before..].to_owned();
            if log.contains(wanted) { Ok(log) } else { Err(format!("no '{wanted}': {log}")) }
        })
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        eventually(|| match self.child.try_wait().unwrap() {
            Some(status) => Ok(status),
            None => Err(format!("it does not end: {}", fs::read_to_string(&self.log).unwrap())),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
