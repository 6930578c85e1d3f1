//! Reasons for which interfaces get no path.

use std::fmt;

/// Reason that an interface gets no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unused {
    /// It is down, or has no carrier.
    Down,
    /// It has no address.
    NoAddress,
    /// It leads to this host only.
    Loopback,
    /// By its name it leads to containers, virtual machines or a private overlay.
    Virtual,
    /// Its addresses are of use on its link only.
    LinkLocal,
    /// [`PathPolicy::deny`](super::PathPolicy::deny) names it.
    Denied,
    /// [`PathPolicy::allow`](super::PathPolicy::allow) names others.
    NotNamed,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::NoAddress => "has no address",
            Self::Loopback => "loopback",
            Self::Virtual => "leads to containers, virtual machines or an overlay, by its name",
            Self::LinkLocal => "has link-local addresses only",
            Self::Denied => "denied",
            Self::NotNamed => "not named",
        })
    }
}
