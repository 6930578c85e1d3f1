//! Reasons why interfaces get no path.

use std::fmt;

/// Reason why an interface gets no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unused {
    /// The interface is down, or has no carrier.
    Down,
    /// The interface has no unicast address.
    NoAddress,
    /// The interface is a loopback interface.
    Loopback,
    /// The interface's name is typical of containers, virtual machines or private overlays.
    Virtual,
    /// The interface has only link-local addresses.
    LinkLocal,
    /// [`PathPolicy::deny`](super::PathPolicy::deny) names the interface or its addresses.
    Denied,
    /// [`PathPolicy::allow`](super::PathPolicy::allow) names only other interfaces, or the policy's chooser
    /// gives this one no path.
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
