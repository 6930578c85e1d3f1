//! `cargo xtask interop --tunnel`: UDP flows (RFC 9298) and IP packets (RFC 9484) through proxies of other stacks, and from
//! their clients.

mod case;
mod ends;
mod ip;
mod target;
mod udp;

use self::case::{Case, Work};
use super::chapter::Subject;
use super::field::Field;
use super::judge::Outcome;
use super::program::{OURS, Program};

/// Peer for UDP flows, and peer for IP packets.
const MASQUE: &str = "masque-go";
const CONNECT_IP: &str = "connect-ip-go";

/// Chapter on the tunnel.
pub(super) const SUBJECT: Subject<Case> =
    Subject { name: "Tunnels", preface: PREFACE, peers: &[MASQUE, CONNECT_IP], cases: case::all, play };

/// Runs `case` and judges it.
fn play(case: &Case, client: &Program, server: &Program, field: &Field) -> Outcome {
    let able = if case.is_ip() { CONNECT_IP } else { MASQUE };
    if let Some(other) = [client, server].into_iter().find(|one| one.name != OURS && one.name != able) {
        let what = if case.is_ip() { "IP packets" } else { "UDP flows" };
        return Outcome::Unsupported(format!("{} carries no {what}", other.name));
    }
    let played = match &case.work {
        Work::Udp(work) => udp::play(work, client, server, field),
        Work::Ip(work) => ip::play(*work, client, server, field),
    };
    played.unwrap_or_else(Outcome::Failed)
}

const PREFACE: &str = "\
Written by `cargo xtask interop --tunnel`. UDP flows (RFC 9298) are those of masque-go 0.4.0 over quic-go 0.60.0, on the loopback
interface; our client is `anabranch forward`. IP packets (RFC 9484) are those of connect-ip-go 0.7.0 over quic-go 0.65.0, in network
namespaces, as root; our client is `anabranch vpn connect`, whose programs use the kernel's sockets. Behind `anabranch proxy serve` is
a host that echoes. The program of connect-ip-go makes and reads packets itself; as a proxy it answers them, since it has no network.
Every case is one over IPv4 and, unless it says otherwise, over IPv6.

Where these stacks differ:

- masque-go puts `error` into Proxy-Status as a string, where RFC 9209 §2.1.1 has a token. Our client reads both.
- Neither has CONNECT for TCP (RFC 9110 §9.3.6). `anabranch vpn connect` carries TCP that way, and so none through such a proxy.
- Without discovery of the path MTU so far, connect-ip-go tells senders an MTU of 1,280 bytes.
";
