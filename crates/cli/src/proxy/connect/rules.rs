//! Rules by port for UDP flows: whether their datagrams are sent on two paths, and how long they may wait.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::proxy::FlowTerms;
use clap::Args;

use crate::exit;

/// Maximum deadline of a rule, in milliseconds.
const MAX_DEADLINE: u64 = 10_000;

/// Rules for UDP flows.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Send each datagram of flows to this port on two paths, if the proxy removes the duplicates; may be repeated
    #[arg(long, value_name = "udp:PORT[-PORT]")]
    redundant: Vec<Ports>,
    /// Drop datagrams of flows to this port that have waited this long instead of sending them; may be repeated, and the first
    /// option that covers the port counts [default: 250]
    #[arg(long, value_name = "udp:PORT[-PORT]=MS")]
    deadline: Vec<Deadline>,
}

impl Rules {
    /// Returns the terms of a flow to `port`.
    pub(crate) fn of(&self, port: u16) -> FlowTerms {
        let terms = FlowTerms::default();
        let is_redundant = self.redundant.iter().any(|ports| ports.0.contains(&port));
        let terms = if is_redundant { terms.with_copies() } else { terms };
        let deadline = self.deadline.iter().find(|deadline| deadline.ports.0.contains(&port));
        deadline.map_or(terms, |deadline| terms.with_deadline(deadline.time))
    }
}

/// Reports once on standard error that datagrams are not sent on two paths although a rule asks for it.
pub(crate) fn tell_single() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        exit::note("anabranch: the proxy removes no duplicates, so datagrams travel once");
    }
}

/// A range of UDP ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ports(RangeInclusive<u16>);

/// A range of UDP ports, and the maximum time that datagrams to them wait.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Deadline {
    ports: Ports,
    time: Duration,
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

impl FromStr for Deadline {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (ports, time) = text.split_once('=').ok_or("write udp:PORT=MS")?;
        let time = time.parse().ok().filter(|time| (1..=MAX_DEADLINE).contains(time));
        let time = time.ok_or("a deadline is from 1 to 10000 milliseconds")?;
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
        ];
        let rules = Line::parse_from(line).rules;
        let terms = FlowTerms::default();
        let soon = Duration::from_millis(80);
        assert_eq!(rules.of(5_060), terms.with_copies().with_deadline(soon));
        assert_eq!(rules.of(5_061), terms.with_deadline(soon));
        assert_eq!([rules.of(16_384), rules.of(32_767)], [terms.with_copies(); 2]);
        assert_eq!([rules.of(53), rules.of(32_768)], [terms; 2]);
    }

    #[test]
    fn a_deadline_is_at_most_max_deadline() {
        assert_eq!(
            format!("udp:1={MAX_DEADLINE}").parse::<Deadline>().unwrap().time,
            Duration::from_millis(MAX_DEADLINE)
        );
        let longer = format!("udp:1={}", MAX_DEADLINE + 1);
        for bad in ["", "udp:1", "udp:1=", "udp:1=0", "udp:1=x", "tcp:1=5", "udp:2-1=5", &longer] {
            assert!(bad.parse::<Deadline>().is_err(), "{bad}");
        }
        for bad in ["", "5060", "udp:", "udp:0", "udp:65536", "udp:1-", "udp:3-2"] {
            assert!(bad.parse::<Ports>().is_err(), "{bad}");
        }
    }
}
