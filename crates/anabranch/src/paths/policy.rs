//! Policy for paths: the local interfaces and addresses that get paths, and the use of these paths.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use wildmatch::WildMatch;

use super::PathStatus;
use super::chooser::{Chooser, PathChooser, PathUse};
use super::unused::Unused;

/// Name patterns of interfaces that lead to containers, virtual machines or private overlays, not to a
/// network from which a server can be reached.
const VIRTUAL: [&str; 18] = [
    "docker*",
    "br-*",
    "bridge*",
    "veth*",
    "virbr*",
    "vmnet*",
    "vnet*",
    "lxc*",
    "lxd*",
    "cni*",
    "cali*",
    "flannel*",
    "podman*",
    "kube*",
    "dummy*",
    "tap*",
    "tailscale*",
    "zt*",
];

/// Maximum number of paths that one rule can request on each interface.
pub const MAX_PATHS_PER_INTERFACE: usize = 8;

/// Pattern for interface names (`eth0`, `wlan*`, `en?`) or for addresses (`192.0.2.7`, `2001:db8::/32`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Pattern {
    /// Interface names. `*` matches any characters, `?` matches one character.
    Name(WildMatch),
    /// Addresses.
    Addresses(IpNet),
}

impl Pattern {
    /// Returns the address if the pattern matches only one.
    pub fn single_address(&self) -> Option<IpAddr> {
        match self {
            Self::Addresses(net) if net.prefix_len() == net.max_prefix_len() => Some(net.addr()),
            _ => None,
        }
    }

    /// Returns whether the pattern matches this address of this interface.
    pub fn matches(&self, interface: &str, address: IpAddr) -> bool {
        match self {
            Self::Name(name) => name.matches(interface),
            Self::Addresses(net) => net.contains(&address),
        }
    }
}

impl FromStr for Pattern {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Addresses(net));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Addresses(address.into()));
        }
        let valid = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ',' | '=');
        match !text.is_empty() && text.chars().all(valid) {
            true => Ok(Self::Name(WildMatch::new(text))),
            false => Err(InvalidRule(text.to_owned())),
        }
    }
}

/// Use of the paths on some interfaces.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathRule {
    /// Interfaces to which the rule applies.
    pub pattern: Pattern,
    /// Status of their paths.
    pub status: PathStatus,
    /// Weight for schedulers that distribute data by weight.
    pub weight: u32,
    /// Number of paths on each interface, each on its own port: 1 to [`MAX_PATHS_PER_INTERFACE`].
    pub count: usize,
}

/// Parses `IF|ADDRESS[,backup][,weight=N][,count=N]`.
impl FromStr for PathRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let mut parts = text.split(',');
        let pattern = parts.next().unwrap_or_default().parse()?;
        let mut rule = Self { pattern, status: PathStatus::Available, weight: 1, count: 1 };
        for part in parts {
            let invalid = || InvalidRule(part.to_owned());
            match part.split_once('=') {
                None if part == "backup" => rule.status = PathStatus::Backup,
                Some(("weight", weight)) => rule.weight = weight.parse().map_err(|_| invalid())?,
                Some(("count", count)) => rule.count = count.parse().map_err(|_| invalid())?,
                _ => return Err(invalid()),
            }
        }
        if !(1..=MAX_PATHS_PER_INTERFACE).contains(&rule.count) {
            return Err(InvalidRule(format!("count={}", rule.count)));
        }
        Ok(rule)
    }
}

/// The invalid part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRule(String);

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' says nothing about paths: use INTERFACE|ADDRESS[,backup][,weight=N][,count=1..8]",
            self.0
        )
    }
}

impl std::error::Error for InvalidRule {}

/// Policy for the paths that a client opens automatically; see
/// [`Connection::manage_paths`](crate::Connection::manage_paths).
///
/// ```
/// use anabranch::PathPolicy;
///
/// // Ethernet first, with two paths; the mobile network as a backup; no other interface.
/// let rules = ["en*,count=2".parse()?, "wwan0,backup".parse()?];
/// let policy = PathPolicy::default().allowing(rules).with_max_paths(3);
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PathPolicy {
    pub(super) allow: Vec<PathRule>,
    pub(super) deny: Vec<Pattern>,
    pub(super) max_paths: usize,
    pub(super) chooser: Option<Chooser>,
}

impl Default for PathPolicy {
    fn default() -> Self {
        Self { allow: Vec::new(), deny: Vec::new(), max_paths: 4, chooser: None }
    }
}

/// Use of an address for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// Order of preference, smallest first.
    pub(super) rank: usize,
    pub(super) status: PathStatus,
    pub(super) weight: u32,
    pub(super) count: usize,
    /// `true` if a rule names exactly this address. The address then has its own paths, apart from those of
    /// its interface.
    pub(super) named: bool,
}

impl Default for Usage {
    fn default() -> Self {
        Self { rank: 0, status: PathStatus::Available, weight: 1, count: 1, named: false }
    }
}

impl PathPolicy {
    /// Returns the rules for interfaces to use, in order of preference. They may also name virtual
    /// interfaces. An address that a rule names individually gets its own paths, apart from those of its
    /// interface. Without rules, every interface that leads to a network is used, including point-to-point
    /// and mobile ones. This excludes containers, virtual machines, private overlays, loopback and link-local
    /// addresses; see [`PathPolicy::survey`]. A connection to a server on this host stays on its loopback address,
    /// from where it also reaches the server's further addresses.
    pub fn allow(&self) -> &[PathRule] {
        &self.allow
    }

    /// Returns the patterns of interfaces and addresses that are never used.
    pub fn deny(&self) -> &[Pattern] {
        &self.deny
    }

    /// Returns the maximum number of paths, including the connection's first one.
    pub fn max_paths(&self) -> usize {
        self.max_paths
    }

    /// Adds rules for the interfaces to use; earlier rules have preference. Interfaces without a rule are
    /// then not used.
    #[must_use]
    pub fn allowing(mut self, rules: impl IntoIterator<Item = PathRule>) -> Self {
        self.allow.extend(rules);
        self
    }

    /// Adds patterns of interfaces and addresses that are never used.
    #[must_use]
    pub fn denying(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        self.deny.extend(patterns);
        self
    }

    /// Sets the maximum number of paths, including the connection's first one.
    #[must_use]
    pub fn with_max_paths(mut self, max_paths: usize) -> Self {
        self.max_paths = max_paths;
        self
    }

    /// Lets `chooser` decide about each address that no deny pattern matches. The rules of [`Self::allowing`]
    /// then have no effect.
    #[must_use]
    pub fn choosing(mut self, chooser: Arc<dyn PathChooser>) -> Self {
        self.chooser = Some(Chooser(chooser));
        self
    }

    /// Returns whether the policy leaves it to this end whether to use an address: it does not deny the address, and neither
    /// its rules nor a chooser name the addresses to use.
    pub(super) fn leaves_choice(&self, interface: &str, address: IpAddr) -> bool {
        let denied = self.deny.iter().any(|pattern| pattern.matches(interface, address));
        self.allow.is_empty() && self.chooser.is_none() && !denied
    }

    /// Returns the use of an address of an interface, or the reason why it is not used.
    pub(super) fn usage(&self, interface: &str, address: IpAddr) -> Result<Usage, Unused> {
        if address.is_unspecified() || address.is_multicast() {
            return Err(Unused::NoAddress);
        }
        if self.deny.iter().any(|pattern| pattern.matches(interface, address)) {
            return Err(Unused::Denied);
        }
        if let Some(Chooser(chooser)) = &self.chooser {
            let chosen = chooser.choose(interface, address).ok_or(Unused::NotNamed)?;
            let PathUse { preference: rank, status, weight, count } = chosen;
            let count = count.clamp(1, MAX_PATHS_PER_INTERFACE);
            return Ok(Usage { rank, status, weight, count, named: false });
        }
        if self.allow.is_empty() {
            let is_virtual = VIRTUAL.iter().any(|name| WildMatch::new(name).matches(interface));
            let reasons = [
                (address.is_loopback(), Unused::Loopback),
                (is_virtual, Unused::Virtual),
                (is_link_local(address), Unused::LinkLocal),
            ];
            let reason = reasons.into_iter().find(|(applies, _)| *applies);
            return reason.map_or_else(|| Ok(Usage::default()), |(_, why)| Err(why));
        }
        let named = self.allow.iter().position(|rule| rule.pattern.matches(interface, address));
        let rank = named.ok_or(Unused::NotNamed)?;
        let rule = &self.allow[rank];
        // A rule with an interface name excludes link-local addresses. Only a rule with an address can allow
        // them.
        if is_link_local(address) && !matches!(&rule.pattern, Pattern::Addresses(_)) {
            return Err(Unused::LinkLocal);
        }
        let named = rule.pattern.single_address().is_some();
        Ok(Usage { rank, status: rule.status, weight: rule.weight, count: rule.count, named })
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
