//! Survey of this host's interfaces: those that a [`PathPolicy`] uses, and the reasons for leaving out the
//! others.

use std::fmt;
use std::net::IpAddr;

use super::interface::Interface;
use super::interfaces::snapshot;
use super::policy::{PathPolicy, PathRule, Pattern};
use super::unused::Unused;

/// An interface of this host, and whether a policy uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SurveyedInterface {
    /// Its name.
    pub name: String,
    /// `true` if the interface is up and has a carrier.
    pub is_up: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Reason why the interface is not used; `None` if it is used.
    pub unused: Option<Unused>,
}

/// A rule of [`PathPolicy::allow`] that yields no path at present.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidPath {
    /// This host has no interface or address that matches the pattern of the rule.
    Missing(String),
    /// The interfaces of the rule are down, or have no address that can be used.
    Unusable {
        /// Names of the interfaces, separated by commas.
        interfaces: String,
        /// Reason why the first of these interfaces is not used.
        why: Unused,
    },
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(pattern) => write!(f, "this host has no interface or address {pattern}"),
            Self::Unusable { interfaces, why: Unused::Down } => write!(f, "{interfaces} is down"),
            Self::Unusable { interfaces, why } => write!(f, "{interfaces}: {why}"),
        }
    }
}

/// The present interfaces of this host; see [`PathPolicy::survey`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// All interfaces.
    pub interfaces: Vec<SurveyedInterface>,
    /// Rules that yield no path at present.
    pub invalid: Vec<InvalidPath>,
}

impl PathPolicy {
    /// Returns the present interfaces of this host, and whether each of them gets paths. Without rules, an
    /// interface gets paths if it is up and has an address that is neither loopback nor link-local.
    /// Interfaces of containers, virtual machines and overlays, which are recognized by name, get none.
    /// Point-to-point interfaces (`ppp0`, `wg1`, `tun0`) and mobile ones (`wwan0`) do.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub async fn survey(&self) -> Survey {
        let mut interfaces = snapshot().await;
        self.add_loopback(&mut interfaces);
        self.survey_of(&interfaces)
    }

    pub(super) fn survey_of(&self, interfaces: &[Interface]) -> Survey {
        let candidates: Vec<_> = interfaces.iter().map(|interface| self.candidate(interface)).collect();
        let invalid = self.allow.iter().filter_map(|rule| rule.judge(&candidates)).collect();
        Survey { interfaces: candidates, invalid }
    }

    fn candidate(&self, interface: &Interface) -> SurveyedInterface {
        let usages = interface.addresses.iter().map(|address| self.usage(&interface.name, *address));
        let unused = match usages.reduce(|first, next| first.or_else(|why| next.map_err(|_| why))) {
            _ if !interface.is_up => Some(Unused::Down),
            Some(usage) => usage.err(),
            None => Some(Unused::NoAddress),
        };
        let addresses = interface.addresses.iter().chain(&interface.idle_addresses).copied().collect();
        SurveyedInterface { name: interface.name.clone(), is_up: interface.is_up, addresses, unused }
    }
}

impl PathRule {
    fn judge(&self, candidates: &[SurveyedInterface]) -> Option<InvalidPath> {
        let names = |candidate: &&SurveyedInterface| match &self.pattern {
            Pattern::Name(name) => name.matches(&candidate.name),
            Pattern::Addresses(net) => candidate.addresses.iter().any(|address| net.contains(address)),
        };
        let named: Vec<_> = candidates.iter().filter(names).collect();
        if named.is_empty() {
            return Some(InvalidPath::Missing(self.pattern.to_string()));
        }
        let why = named[0].unused?;
        if named.iter().any(|candidate| candidate.unused.is_none()) {
            return None;
        }
        let interfaces: Vec<_> = named.iter().map(|candidate| candidate.name.as_str()).collect();
        Some(InvalidPath::Unusable { interfaces: interfaces.join(", "), why })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Addresses(net) => match self.single_address() {
                Some(address) => write!(f, "{address}"),
                None => write!(f, "{net}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        let interface = |name: &str, is_up: bool, address: &str| {
            let all = vec![address.parse().unwrap()];
            let (addresses, idle_addresses) = if is_up { (all, Vec::new()) } else { (Vec::new(), all) };
            Interface { name: name.into(), addresses, idle_addresses, is_up }
        };
        vec![
            interface("lo", true, "127.0.0.1"),
            interface("eth0", true, "192.0.2.1"),
            interface("wlan0", false, "198.51.100.1"),
            interface("ppp0", true, "10.64.64.1"),
            interface("wwan0", true, "100.64.0.2"),
            interface("docker0", true, "172.17.0.1"),
            interface("eth9", true, "fe80::1"),
        ]
    }

    fn allowing(rules: &[&str]) -> PathPolicy {
        PathPolicy { allow: rules.iter().map(|rule| rule.parse().unwrap()).collect(), ..Default::default() }
    }

    #[test]
    fn every_interface_says_why_it_is_not_used() {
        let survey = PathPolicy::default().survey_of(&host());
        let unused: Vec<_> = survey.interfaces.iter().map(|one| (one.name.as_str(), one.unused)).collect();
        assert_eq!(
            unused,
            [
                ("lo", Some(Unused::Loopback)),
                ("eth0", None),
                ("wlan0", Some(Unused::Down)),
                ("ppp0", None),
                ("wwan0", None),
                ("docker0", Some(Unused::Virtual)),
                ("eth9", Some(Unused::LinkLocal)),
            ]
        );
    }

    #[test]
    fn names_without_an_interface_are_missing_and_those_of_one_that_is_down_are_not() {
        let invalid = |rules: &[&str]| -> Vec<String> {
            allowing(rules).survey_of(&host()).invalid.iter().map(ToString::to_string).collect()
        };
        assert_eq!(invalid(&["eth0", "eth*", "192.0.2.1", "docker0"]), Vec::<String>::new());
        assert_eq!(invalid(&["wlan1"]), ["this host has no interface or address wlan1"]);
        assert_eq!(invalid(&["203.0.113.9"]), ["this host has no interface or address 203.0.113.9"]);
        assert_eq!(invalid(&["wlan0", "eth0"]), ["wlan0 is down"]);
        assert_eq!(invalid(&["198.51.100.1"]), ["wlan0 is down"]);
        assert_eq!(invalid(&["eth9"]), ["eth9: has link-local addresses only"]);
    }
}
