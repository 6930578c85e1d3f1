//! Middleboxes: a NAT that forgets, and a link that loses long packets.

use std::process::{Command, Stdio};

use crate::network::{Link, RATE, SERVER, program_at_server, run};

/// Namespace of the NAT.
const NAT: &str = "nat";

/// A NAT on the client's first link.
pub(crate) struct Nat;

impl Nat {
    /// Puts the NAT between the first link, which is new, and the server.
    pub(crate) fn insert() -> Self {
        run("ip", &["netns", "add", NAT]);
        let peer = Link(1).peer();
        // The NAT takes the server's end of the link, and another link connects it to the server.
        at_nat("ip", &["link", "set", "lo", "up"]);
        run("ip", &["-netns", "server", "link", "set", &peer, "netns", NAT]);
        at_nat("ip", &["address", "add", "10.1.0.254/24", "dev", &peer]);
        at_nat("ip", &["link", "set", &peer, "up"]);
        // The discipline of the link did not move with it.
        at_nat("tc", &[&["qdisc", "add", "dev", &peer, "root"][..], &RATE].concat());
        let words = ["link", "add", "out", "type", "veth", "peer", "name", "nat", "netns", "server"];
        at_nat("ip", &words);
        run("ip", &["-netns", "server", "address", "add", "10.101.0.254/24", "dev", "nat"]);
        run("ip", &["-netns", "server", "link", "set", "nat", "up"]);
        at_nat("ip", &["link", "set", "out", "up"]);
        at_nat("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
        let nat = Self;
        nat.translate(20_000);
        nat
    }

    /// Translates to the thousand ports from this one on. The NAT forgets all mappings that it has.
    pub(crate) fn translate(&self, from: u16) {
        // A masquerading NAT drops its mappings with the address that they have.
        at_nat("ip", &["address", "flush", "dev", "out"]);
        let ports = format!("{from}-{}", from + 999);
        let rules = format!(
            "table ip nat {{}}\ndelete table ip nat\ntable ip nat {{ chain out {{ type nat hook postrouting priority srcnat;\n\
             oifname \"out\" meta l4proto udp counter masquerade to :{ports}\n}}\n}}\n"
        );
        feed(inside(NAT, "nft"), &rules);
        at_nat("ip", &["address", "add", "10.101.0.1/24", "dev", "out"]);
        at_nat("ip", &["route", "replace", SERVER, "via", "10.101.0.254", "dev", "out"]);
    }

    /// Returns the number of mappings that were made since the last translation was set.
    pub(crate) fn mappings(&self) -> u64 {
        let output = inside(NAT, "nft").args(["list", "table", "ip", "nat"]).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let (_, rest) =
            listed.split_once("counter packets ").unwrap_or_else(|| panic!("no counter: {listed}"));
        rest.split(' ').next().unwrap().parse().unwrap()
    }
}

/// Loses packets on a link, in both directions, whose UDP payload is so long that they can validate a path (RFC 9000 §8.2.1).
pub(crate) fn lose_long_packets(link: Link, is_lossy: bool) {
    let peer = link.peer();
    let chain = |hook: &str, side: &str| {
        format!(
            "chain {hook} {{ type filter hook {hook} priority 0; {side}ifname \"{peer}\" udp length > 1100 drop\n}}\n"
        )
    };
    let table = format!("table ip hole {{\n{}{}}}\n", chain("input", "i"), chain("output", "o"));
    let clear = "table ip hole {}\ndelete table ip hole\n";
    feed(program_at_server("nft"), &if is_lossy { format!("{clear}{table}") } else { clear.to_owned() });
}

fn inside(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg(program);
    command
}

fn at_nat(program: &str, words: &[&str]) {
    let output = inside(NAT, program).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives nft rules.
fn feed(mut nft: Command, rules: &str) {
    use std::io::Write;
    let child = nft.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{rules}: {}", String::from_utf8_lossy(&output.stderr));
}
