//! The demo's network: links described on the command line, and their failures.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anabranch_lab::link::LinkSpec;
use anabranch_lab::random::Seed;
use anabranch_lab::relay::Relay;

/// Maximum number of links.
pub(super) const MAX_LINKS: usize = 8;
/// Maximum rate of a link, in bits per second: the limit of a relay in user space.
const MAX_RATE: u64 = 2_000_000_000;
/// Maximum UDP payload on Ethernet over IPv4, in bytes.
const MTU: usize = 1472;

/// Links, each `RATE/RTT[/LOSS]`, separated by commas.
#[derive(Clone, Debug)]
pub(super) struct Plan(pub(super) Vec<Link>);

/// Parameters of a link.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Text on the command line.
    pub(super) text: String,
    /// Rate in bits per second.
    pub(super) rate: u64,
    spec: LinkSpec,
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let links = text.split(',').map(Link::parse).collect::<Result<Vec<_>, _>>()?;
        if links.len() > MAX_LINKS {
            return Err(format!("{} paths are too many; the most are {MAX_LINKS}", links.len()));
        }
        Ok(Self(links))
    }
}

impl Plan {
    /// Returns the total rate of all links, in bits per second.
    pub(super) fn rate(&self) -> u64 {
        self.0.iter().map(|link| link.rate).sum()
    }
}

impl Link {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let spec: LinkSpec = text.parse().map_err(|error| format!("{error}"))?;
        let spec = spec.mtu(MTU);
        match spec.rate() {
            Some(rate) if rate <= MAX_RATE => Ok(Self { text: text.to_owned(), rate, spec }),
            Some(_) => Err(format!("link `{text}`: the demo's links carry 2gbit at most")),
            None => Err(format!("link `{text}`: the demo's links have a rate, for example 50mbit/20ms/1%")),
        }
    }

    /// Starts a relay for the link on the loopback interface. The relay forwards datagrams to `server`.
    pub(super) fn start(&self, server: SocketAddr, seed: u64) -> io::Result<Relay> {
        Relay::start((Ipv4Addr::LOCALHOST, 0).into(), server, &self.spec, Seed(seed), Instant::now)
    }
}

/// Failure of a link: `PATH@TIME`, or `PATH@TIME+TIME` if the link recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fail {
    pub(super) path: usize,
    /// Time of the failure after the start of the transfer.
    pub(super) at: Duration,
    /// Duration of the failure; `None` if it is permanent.
    pub(super) lasts: Option<Duration>,
}

impl FromStr for Fail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not PATH@TIME or PATH@TIME+TIME, for example 1@3s, 0@500ms+2s; paths count from 0"
            )
        };
        let (path, when) = text.split_once('@').ok_or_else(wrong)?;
        let path = path.trim().parse().map_err(|_| wrong())?;
        let (at, lasts) = match when.split_once('+') {
            Some((at, lasts)) => (at, Some(time(lasts).ok_or_else(wrong)?)),
            None => (when, None),
        };
        Ok(Self { path, at: time(at).ok_or_else(wrong)?, lasts })
    }
}

impl Fail {
    /// Returns the beginning and the end of the failure, in seconds, in a transfer of `length` seconds.
    pub(super) fn seconds(&self, length: f64) -> (f64, f64) {
        let from = self.at.as_secs_f64().min(length);
        (from, self.lasts.map_or(length, |lasts| (from + lasts.as_secs_f64()).min(length)))
    }

    /// Schedules the failure on `relay`. `elapsed` is the time since the start of the transfer, from which
    /// `at` counts.
    pub(super) fn arrange(&self, relay: &Relay, elapsed: Duration) {
        let end = self.lasts.map_or(Duration::MAX, |lasts| self.at.saturating_add(lasts));
        relay.blackout(self.at.saturating_sub(elapsed)..end.saturating_sub(elapsed));
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {} dead at {} s", self.path, self.at.as_secs_f64())?;
        self.lasts.map_or(Ok(()), |lasts| write!(f, " for {} s", lasts.as_secs_f64()))
    }
}

/// Parses a time in seconds or milliseconds.
fn time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    Duration::try_from_secs_f64(number.trim().parse::<f64>().ok()? * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_links_and_commas() {
        let plan: Plan = "50mbit/20ms, 30mbit/60ms/1%".parse().unwrap();
        assert_eq!(plan.0.iter().map(|link| link.rate).collect::<Vec<_>>(), [50_000_000, 30_000_000]);
        assert_eq!(plan.0[1].text, "30mbit/60ms/1%");
        assert_eq!(plan.rate(), 80_000_000);
    }

    #[test]
    fn what_is_no_plan_is_told_in_one_line() {
        let nine = ["1mbit/1ms"; MAX_LINKS + 1].join(",");
        for (bad, said) in [
            ("", "link ``: has not two or three parts; expected RATE/RTT[/LOSS]"),
            ("50mbit/20ms,", "link ``"),
            ("50/20ms", "`50` is no rate"),
            ("50mbit/20", "`20` is no round-trip time"),
            ("50mbit/20ms/x", "`x` is no loss"),
            ("50mbit/20ms/101%", "`101%` is no loss"),
            ("50mbit/20ms/1%/2", "has not two or three parts"),
            ("0mbit/20ms", "`0mbit` is no rate"),
            ("unlimited/20ms", "have a rate"),
            ("3gbit/20ms", "2gbit at most"),
            (&nine, "9 paths are too many; the most are 8"),
        ] {
            let error = bad.parse::<Plan>().unwrap_err();
            assert!(error.contains(said) && error.lines().count() == 1, "{bad}: {error}");
        }
    }

    #[test]
    fn failures_name_a_path_and_a_time() {
        let fail = |path, at, lasts: Option<u64>| Fail {
            path,
            at: Duration::from_millis(at),
            lasts: lasts.map(Duration::from_millis),
        };
        for (text, expected) in [
            ("1@3s", fail(1, 3_000, None)),
            ("0@250ms", fail(0, 250, None)),
            (" 2 @ 1.5s + 2s", fail(2, 1_500, Some(2_000))),
        ] {
            assert_eq!(text.parse::<Fail>().unwrap(), expected, "{text}");
        }
        for bad in
            ["", "1", "1@", "1@3", "@3s", "x@3s", "-1@3s", "1@-3s", "1@3s+", "1@nans", "1@infs", "1@3h"]
        {
            let error = bad.parse::<Fail>().unwrap_err();
            assert!(error.contains("PATH@TIME") && error.lines().count() == 1, "{bad}: {error}");
        }
    }
}
