//! Rules by port for UDP flows: which of them travel twice or are put back in order, and how long their datagrams may wait.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::proxy::FlowTerms;
use anabranch::proxy::client::UdpTunnel;
use clap::Args;

use super::presets::Preset;
use crate::exit;

/// Maximum deadline of a rule, in milliseconds.
const MAX_DEADLINE: u64 = 10_000;
/// Maximum time for which a datagram waits for earlier ones, in milliseconds.
const MAX_HOLD: u64 = 1_000;

/// Rules for UDP flows.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Send each datagram of flows to this port on two paths, if the proxy removes the duplicates; may be repeated
    #[arg(long, value_name = "udp:PORT[-PORT]")]
    redundant: Vec<Ports>,
    /// Drop datagrams of flows to this port that have waited this long instead of sending them; may be repeated, and the first
    /// option that covers the port counts [default: 250]
    #[arg(long, value_name = "udp:PORT[-PORT]=MS")]
    deadline: Vec<Timed<MAX_DEADLINE>>,
    /// Put datagrams of flows to this port back in order where they leave the tunnel, for programs that take reordering for loss. One
    /// that overtook others waits for them at most this long; may be repeated, and the first one that fits counts
    #[arg(long, value_name = "udp:PORT[-PORT]=MS")]
    ordered: Vec<Timed<MAX_HOLD>>,
    /// Rules for the ports of common programs; may be repeated. Rules of the other options take precedence
    #[arg(long, value_name = "NAME")]
    preset: Vec<Preset>,
}

impl Rules {
    /// Returns the terms of a flow to `port`.
    pub(crate) fn of(&self, port: u16) -> FlowTerms {
        let terms = FlowTerms::default();
        let preset = self.preset.iter().find(|preset| preset.covers(port));
        let is_redundant = self.redundant.iter().any(|ports| ports.0.contains(&port))
            || preset.is_some_and(|preset| preset.has_copies());
        let terms = if is_redundant { terms.with_copies() } else { terms };
        let deadline = Timed::of(&self.deadline, port).or_else(|| preset?.deadline());
        let terms = deadline.map_or(terms, |time| terms.with_deadline(time));
        let order = Timed::of(&self.ordered, port).or_else(|| preset?.order());
        order.map_or(terms, |time| terms.with_order(time))
    }
}

/// Reports once on standard error what the proxy does not do for a flow, although a rule asks for it.
pub(crate) fn report_missing(wishes: FlowTerms, tunnel: &UdpTunnel) {
    static COPIES: AtomicBool = AtomicBool::new(false);
    static ORDER: AtomicBool = AtomicBool::new(false);
    let once = |reported: &AtomicBool, text: &str| {
        if !reported.swap(true, Ordering::Relaxed) {
            exit::note(text);
        }
    };
    if wishes.has_copies() && !tunnel.has_copies() {
        once(&COPIES, "anabranch: the proxy removes no duplicates, so datagrams travel once");
    }
    if wishes.order().is_some() && !tunnel.is_ordered() {
        once(&ORDER, "anabranch: the proxy puts no datagrams in order, so they arrive as they come");
    }
}

/// A range of UDP ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ports(RangeInclusive<u16>);

/// Ports, and a time of at most `MAX` milliseconds for the datagrams to them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Timed<const MAX: u64> {
    ports: Ports,
    time: Duration,
}

impl<const MAX: u64> Timed<MAX> {
    /// Returns the time of the first rule for `port`.
    fn of(rules: &[Self], port: u16) -> Option<Duration> {
        rules.iter().find(|rule| rule.ports.0.contains(&port)).map(|rule| rule.time)
    }
}

impl FromStr for Ports {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let ports = text.strip_prefix("udp:").ok_or("write udp:PORT")?;
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err("a port is a number from 1 to 65535"),
        }
    }
}

impl<const MAX: u64> FromStr for Timed<MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ports, time) = text.split_once('=').ok_or("write udp:PORT=MS")?;
        let time = time.parse().ok().filter(|time| (1..=MAX).contains(time));
        let time = time.ok_or_else(|| format!("a time is from 1 to {MAX} milliseconds"))?;
        Ok(Self { ports: ports.parse()?, time: Duration::from_millis(time) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rules: Rules,
    }

    #[test]
    fn rules_hold_for_their_ports() {
        let line = [
            "x",
            "--redundant",
            "udp:5060",
            "--redundant",
            "udp:16384-32767",
            "--deadline",
            "udp:5060-5061=80",
            "--ordered",
            "udp:443=150",
        ];
        let rules = Line::parse_from(line).rules;
        let terms = FlowTerms::default();
        let soon = Duration::from_millis(80);
        assert_eq!(rules.of(5_060), terms.with_copies().with_deadline(soon));
        assert_eq!(rules.of(5_061), terms.with_deadline(soon));
        assert_eq!([rules.of(16_384), rules.of(32_767)], [terms.with_copies(); 2]);
        assert_eq!(rules.of(443), terms.with_order(Duration::from_millis(150)));
        assert_eq!([rules.of(53), rules.of(32_768)], [terms; 2]);
    }

    #[test]
    fn own_rules_precede_those_of_presets() {
        let line = ["x", "--preset", "calls", "--preset", "quic", "--deadline", "udp:5060=80"];
        let rules = Line::parse_from(line).rules;
        let terms = FlowTerms::default();
        let time = Duration::from_millis;
        assert_eq!(rules.of(5_060), terms.with_copies().with_deadline(time(80)));
        assert_eq!(rules.of(3_478), terms.with_copies().with_deadline(time(150)));
        assert_eq!(rules.of(443), terms.with_order(time(150)));
        assert_eq!(rules.of(27_015), terms);
    }

    #[test]
    fn times_have_bounds() {
        let deadline = format!("udp:1={MAX_DEADLINE}").parse::<Timed<MAX_DEADLINE>>();
        assert_eq!(deadline.unwrap().time, Duration::from_millis(MAX_DEADLINE));
        let longer = format!("udp:1={}", MAX_DEADLINE + 1);
        for bad in ["", "udp:1", "udp:1=", "udp:1=0", "udp:1=x", "tcp:1=5", "udp:2-1=5", &longer] {
            assert!(bad.parse::<Timed<MAX_DEADLINE>>().is_err(), "{bad}");
        }
        assert!(format!("udp:1={}", MAX_HOLD + 1).parse::<Timed<MAX_HOLD>>().is_err());
        for bad in ["", "5060", "udp:", "udp:0", "udp:65536", "udp:1-", "udp:3-2"] {
            assert!(bad.parse::<Ports>().is_err(), "{bad}");
        }
    }
}
