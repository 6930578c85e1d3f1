//! Rules of an access list, and their syntax.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;

/// Rule of an access list: targets on a network or with a name, on some ports.
///
/// | Text | Targets |
/// |---|---|
/// | `10.0.0.0/8:5432` | addresses of a network, on one port |
/// | `[fd00::/8]:8000-8999`, `fd00::/8` | addresses of an IPv6 network, on a range of ports or on all ports |
/// | `db.example:443` | one name, with or without a final dot |
/// | `.example` | a name and all names below it |
/// | `*:25` | everything on one port |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    place: Place,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    Network(IpNet),
    Name(String),
    /// A name and all names below it.
    Domain(String),
}

/// Error for a text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no rule: {reason}")]
pub struct InvalidRule {
    text: String,
    reason: &'static str,
}

impl Rule {
    pub(super) fn is_network(&self) -> bool {
        matches!(self.place, Place::Network(_) | Place::Anywhere)
    }

    pub(super) fn has_port(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// Returns whether the rule covers this name, or everything, on `port`.
    pub(super) fn covers_name(&self, host: &str, port: u16) -> bool {
        // A name with a final dot is the same name.
        let host = host.strip_suffix('.').unwrap_or(host);
        let covered = match &self.place {
            Place::Anywhere => true,
            Place::Network(_) => false,
            Place::Name(name) => host.eq_ignore_ascii_case(name),
            Place::Domain(name) => {
                let below = host.len() > name.len() && host.as_bytes()[host.len() - name.len() - 1] == b'.';
                let tail = host.get(host.len().saturating_sub(name.len())..).unwrap_or_default();
                tail.eq_ignore_ascii_case(name) && (host.len() == name.len() || below)
            }
        };
        covered && self.has_port(port)
    }

    /// Returns whether the rule covers packets to this address with the destination port `port`. A packet
    /// without a known port is covered only by a rule for all ports.
    pub(super) fn covers_packet(&self, address: IpAddr, port: Option<u16>) -> bool {
        let has_all = self.ports == (1..=u16::MAX);
        match port {
            Some(port) => self.covers_address(address, port) || (has_all && self.covers_address(address, 1)),
            None => has_all && self.covers_address(address, 1),
        }
    }

    /// Returns whether the rule covers this address, or everything, on `port`.
    pub(super) fn covers_address(&self, address: IpAddr, port: u16) -> bool {
        let covered = match &self.place {
            Place::Anywhere => true,
            Place::Network(network) => network.contains(&address),
            Place::Name(_) | Place::Domain(_) => false,
        };
        covered && self.has_port(port)
    }
}

impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = |reason| InvalidRule { text: text.to_owned(), reason };
        let (place, ports) = if let Some(bracketed) = text.strip_prefix('[') {
            let (place, rest) = bracketed.split_once(']').ok_or_else(|| invalid("a bracket is open"))?;
            match rest {
                "" => (place, None),
                rest => {
                    (place, Some(rest.strip_prefix(':').ok_or_else(|| invalid("write [NETWORK]:PORTS"))?))
                }
            }
        } else {
            match text.split_once(':') {
                // An IPv6 network without ports.
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((place, ports)) => (place, Some(ports)),
                None => (text, None),
            }
        };
        let ports =
            ports.map_or(Some(1..=u16::MAX), self::ports).ok_or_else(|| invalid("ports are N or N-M"))?;
        Ok(Self { place: self::place(place).map_err(invalid)?, ports })
    }
}

fn place(text: &str) -> Result<Place, &'static str> {
    if text == "*" {
        return Ok(Place::Anywhere);
    }
    if let Ok(network) = text.parse::<IpNet>() {
        return match network == network.trunc() {
            true => Ok(Place::Network(network)),
            false => Err("the network has bits beyond its prefix"),
        };
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Place::Network(address.into()));
    }
    let (name, below) = text.strip_prefix('.').map_or((text, false), |name| (name, true));
    // A name with a final dot is the same name.
    let name = name.strip_suffix('.').unwrap_or(name);
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    if !name.split('.').all(|label| !label.is_empty() && label.bytes().all(good)) {
        return Err("write a network, an address, a name, .DOMAIN or *");
    }
    // The last label of a name is not numeric (RFC 1123 §2.1), so this is a mistyped address.
    if name.rsplit('.').next().is_some_and(|label| label.bytes().all(|c| c.is_ascii_digit())) {
        return Err("the address is invalid");
    }
    Ok(if below { Place::Domain(name.to_owned()) } else { Place::Name(name.to_owned()) })
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (1 <= first && first <= last).then_some(first..=last)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Anywhere => f.write_str("*")?,
            Place::Network(network) if network.addr().is_ipv6() => write!(f, "[{network}]")?,
            Place::Network(network) => write!(f, "{network}")?,
            Place::Name(name) => f.write_str(name)?,
            Place::Domain(name) => write!(f, ".{name}")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}
