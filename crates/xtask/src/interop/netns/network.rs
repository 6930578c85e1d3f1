//! Three network namespaces in a row, client – router – server, with the addresses of the public interop
//! runner.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

/// Prefix of all namespaces' names. The ID of the process that created them follows.
const PREFIX: &str = "anabranch-";
/// Folder in which `ip netns exec` looks for a namespace's own files of /etc.
const NETNS_ETC: &str = "/etc/netns";

pub(super) const CLIENT: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(193, 167, 0, 100)),
    IpAddr::V6(Ipv6Addr::new(CAFE, 0xcafe, 0xcafe, 0, 0, 0, 0, 0x100)),
];
pub(in crate::interop) const SERVER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(193, 167, 100, 100)),
    IpAddr::V6(Ipv6Addr::new(CAFE, 0xcafe, 0xcafe, 0x100, 0, 0, 0, 0x100)),
];
/// Addresses of the router on the server's side.
pub(super) const ROUTER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(193, 167, 100, 2)),
    IpAddr::V6(Ipv6Addr::new(CAFE, 0xcafe, 0xcafe, 0x100, 0, 0, 0, 2)),
];
/// Second address of the router on the server's side.
pub(super) const ROUTER_OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(193, 167, 100, 3));
/// Addresses of the router on the client's side.
pub(in crate::interop) const ROUTER_CLIENT_SIDE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(193, 167, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(CAFE, 0xcafe, 0xcafe, 0, 0, 0, 0, 2)),
];
/// First sixteen bits of all IPv6 addresses here.
const CAFE: u16 = 0xfd00;

/// Settings of the bottleneck: its rate, and a queue of 25 packets.
const BOTTLENECK: &[&str] = &["tbf", "rate", "10mbit", "burst", "3000", "limit", "37500"];

/// One of the three hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::interop) enum Host {
    Client,
    Router,
    Server,
}

const HOSTS: [(Host, &str); 3] =
    [(Host::Client, "client"), (Host::Router, "router"), (Host::Server, "server")];

/// The namespaces. When this value is dropped, they and all processes in them are removed.
#[derive(Debug)]
pub(in crate::interop) struct Network {
    name: String,
}

impl Network {
    /// Creates the namespaces. `number` distinguishes the networks of one process; `server` contains the
    /// addresses to which the server's names resolve at the client.
    pub(in crate::interop) fn lay(number: usize, server: [IpAddr; 2]) -> Result<Self, String> {
        let network = Self { name: format!("{PREFIX}{}-{number}", std::process::id()) };
        for (_, part) in HOSTS {
            ip(&["netns", "add", &format!("{}-{part}", network.name)])?;
        }
        network.connect()?;
        network.write_hosts(server).map_err(|error| format!("{NETNS_ETC}: {error}"))?;
        Ok(network)
    }

    fn connect(&self) -> Result<(), String> {
        let [client, router, server] = HOSTS.map(|(_, part)| format!("{}-{part}", self.name));
        ip(&[
            "link", "add", "eth0", "netns", &client, "type", "veth", "peer", "name", "left", "netns", &router,
        ])?;
        ip(&[
            "link", "add", "eth0", "netns", &server, "type", "veth", "peer", "name", "right", "netns",
            &router,
        ])?;
        let sides = [
            (&client, "eth0", &CLIENT[..]),
            (&server, "eth0", &SERVER),
            (&router, "left", &ROUTER_CLIENT_SIDE),
            (&router, "right", &[ROUTER[0], ROUTER[1], ROUTER_OTHER]),
        ];
        for (namespace, link, addresses) in sides {
            for address in addresses {
                let prefix = if address.is_ipv4() { 24 } else { 64 };
                let mut words = vec!["-netns", namespace, "address", "add"];
                let address = format!("{address}/{prefix}");
                words.extend([&address, "dev", link]);
                if prefix == 64 {
                    words.push("nodad");
                }
                ip(&words)?;
            }
            ip(&["-netns", namespace, "link", "set", link, "up"])?;
            ip(&["-netns", namespace, "link", "set", "lo", "up"])?;
        }
        for (namespace, gateways) in [(&client, ROUTER_CLIENT_SIDE), (&server, ROUTER)] {
            for gateway in gateways {
                ip(&["-netns", namespace, "route", "add", "default", "via", &gateway.to_string()])?;
            }
        }
        self.set(Host::Router, "net/ipv4/ip_forward", "1")?;
        self.set(Host::Router, "net/ipv6/conf/all/forwarding", "1")
    }

    /// Writes the host names of the public runner. `ip netns exec` shows them as /etc/hosts.
    fn write_hosts(&self, [v4, v6]: [IpAddr; 2]) -> std::io::Result<()> {
        let folder = self.etc(Host::Client);
        fs::create_dir_all(&folder)?;
        let hosts = format!(
            "127.0.0.1 localhost\n::1 localhost\n{v4} server server4 server46\n{v6} server6 server46\n"
        );
        fs::write(folder.join("hosts"), hosts)
    }

    /// Runs `act` on a thread in one of the namespaces.
    pub(in crate::interop) fn within<R: Send>(
        &self,
        host: Host,
        act: impl FnOnce() -> Result<R, String> + Send,
    ) -> Result<R, String> {
        let namespace = Path::new("/run/netns").join(self.namespace(host));
        let enter = || {
            let file = fs::File::open(&namespace)?;
            setns(file, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from)
        };
        thread::scope(|scope| {
            let acting = scope.spawn(|| {
                enter().map_err(|error| format!("{}: {error}", namespace.display()))?;
                act()
            });
            acting.join().unwrap_or_else(|_| Err("a thread in a namespace panicked".to_owned()))
        })
    }

    fn etc(&self, host: Host) -> PathBuf {
        Path::new(NETNS_ETC).join(self.namespace(host))
    }

    fn namespace(&self, host: Host) -> String {
        let part = HOSTS.iter().find(|(known, _)| *known == host).map_or("", |(_, part)| part);
        format!("{}-{part}", self.name)
    }

    /// Limits the network between client and server to 10 Mbit/s, for every protocol.
    pub(super) fn narrow(&self) -> Result<(), String> {
        let router = self.namespace(Host::Router);
        for link in ["left", "right"] {
            let words = [&["-netns", &router, "qdisc", "add", "dev", link, "root"][..], BOTTLENECK].concat();
            run(Command::new("tc").args(words))?;
        }
        Ok(())
    }

    /// Sets a file below /proc/sys in a namespace.
    fn set(&self, host: Host, file: &str, value: &str) -> Result<(), String> {
        let mut command = self.command(host, "sh");
        command.args(["-c", "echo \"$1\" >\"/proc/sys/$2\"", "set", value, file]);
        run(&mut command)
    }

    /// Returns the start of a command line that runs `program` in one of the namespaces. The program keeps
    /// its process ID and is killed when the thread that started it ends.
    pub(in crate::interop) fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), "setpriv", "--pdeathsig", "KILL"]).arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        sweep(|name| name.starts_with(&format!("{}-", self.name)));
    }
}

/// Returns the reason why namespaces cannot be created here; `None` if they can.
pub(in crate::interop) fn obstacle() -> Option<&'static str> {
    let works = |program: &str, words: &[&str]| {
        Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
    };
    if !nix::unistd::geteuid().is_root() {
        Some("network namespaces need root")
    } else if !works("ip", &["-V"]) || !works("tc", &["-V"]) {
        Some("iproute2 is missing")
    } else if !works("setpriv", &["--version"]) {
        Some("setpriv (util-linux) is missing")
    } else if !works("unshare", &["--net", "true"]) {
        Some("this system makes no network namespaces")
    } else {
        None
    }
}

/// Removes the namespaces of earlier runs that were killed.
pub(in crate::interop) fn sweep_orphans() {
    sweep(|name| {
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    });
}

/// Removes all namespaces that this process has created.
pub(super) fn sweep_own() {
    sweep(|name| name.starts_with(&format!("{PREFIX}{}-", std::process::id())));
}

/// Removes the chosen namespaces and ends the processes in them. Errors are ignored: what cannot be removed
/// is already gone.
fn sweep(chosen: impl Fn(&str) -> bool) {
    let listed =
        Command::new("ip").args(["netns", "list"]).output().map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        if !name.starts_with(PREFIX) || !chosen(name) {
            continue;
        }
        let inside = Command::new("ip").args(["netns", "pids", name]).output().map(|output| output.stdout);
        for pid in String::from_utf8_lossy(&inside.unwrap_or_default()).lines() {
            if let Ok(pid) = pid.trim().parse() {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL);
            }
        }
        let _ = ip(&["netns", "delete", name]);
        let _ = fs::remove_dir_all(Path::new(NETNS_ETC).join(name));
    }
    // The call fails, as intended, if the folder still has files of other namespaces.
    let _ = fs::remove_dir(NETNS_ETC);
}

fn ip(words: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(words))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", log.trim()))
}
