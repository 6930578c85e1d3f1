//! Transports of Linux and their settings, by name.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Transport of the guest with its settings. Its name is `tcp-cubic`, `tcp-reno`, `tcp-bbr`, `mptcp`,
/// `mptcp-reno`, `mptcp-bbr` or `anabranch`. Optional suffixes follow: first `-tls13` or `-tls12`, then
/// `-default-buffers` or `-buffers-256k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stack {
    /// Transport protocol with its congestion control.
    pub transport: Transport,
    /// Version of TLS above the transport; `None` without TLS.
    pub tls: Option<Tls>,
    /// Largest buffers of a socket.
    pub buffers: Buffers,
}

/// Transport protocol with its congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(Control),
    /// Multipath TCP v1 with the default scheduler and path manager, and this congestion control on each
    /// subflow.
    Mptcp(Control),
    /// This library with its defaults, over the kernel's UDP, run by the program's `perf` command.
    Anabranch,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// CUBIC, the default of Linux.
    Cubic,
    /// NewReno.
    Reno,
    /// BBR v1.
    Bbr,
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// TLS 1.2, whose handshake takes two round trips.
    V12,
    /// TLS 1.3, whose handshake takes one round trip.
    V13,
}

/// Largest buffers of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// 16 MiB in both directions, as the study of 2017 set them.
    Paper,
    /// Defaults of Linux: 6 MiB for receiving, 4 MiB for sending.
    Default,
    /// Receive windows of about 256 KiB, as in the lab's plans with limited windows, and 16 MiB for sending.
    Window256K,
}

impl Stack {
    /// Returns true if the transport is Multipath TCP.
    pub fn is_multipath(self) -> bool {
        matches!(self.transport, Transport::Mptcp(_))
    }

    /// Returns true if the transport can use several paths.
    pub fn takes_paths(self) -> bool {
        self.is_multipath() || self.transport == Transport::Anabranch
    }

    /// Returns the congestion control that Linux's TCP uses beside this stack: the stack's own, or else
    /// Linux's default.
    pub fn control(self) -> Control {
        match self.transport {
            Transport::Tcp(control) | Transport::Mptcp(control) => control,
            Transport::Anabranch => Control::Cubic,
        }
    }
}

impl Control {
    const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// Returns the name by which Linux knows the congestion control.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl Buffers {
    /// Returns the suffix of a stack's name that selects the buffers.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Paper => "",
            Self::Default => "-default-buffers",
            Self::Window256K => "-buffers-256k",
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Tcp(control) => write!(f, "tcp-{}", control.name())?,
            Transport::Mptcp(Control::Cubic) => f.write_str("mptcp")?,
            Transport::Mptcp(control) => write!(f, "mptcp-{}", control.name())?,
            Transport::Anabranch => f.write_str("anabranch")?,
        }
        f.write_str(match self.tls {
            Some(Tls::V12) => "-tls12",
            Some(Tls::V13) => "-tls13",
            None => "",
        })?;
        f.write_str(self.buffers.suffix())
    }
}

/// Error for a name that is not a stack of Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Linux has no stack `{0}`: use tcp-cubic, tcp-reno, tcp-bbr, mptcp, mptcp-reno, mptcp-bbr or anabranch, then -tls13 or -tls12, then \
     -default-buffers or -buffers-256k"
)]
pub struct UnknownStack(String);

impl FromStr for Stack {
    type Err = UnknownStack;

    fn from_str(name: &str) -> Result<Self, UnknownStack> {
        let limited = [Buffers::Default, Buffers::Window256K]
            .into_iter()
            .find_map(|buffers| Some((name.strip_suffix(buffers.suffix())?, buffers)));
        let (rest, buffers) = limited.unwrap_or((name, Buffers::Paper));
        let (rest, tls) = match (rest.strip_suffix("-tls12"), rest.strip_suffix("-tls13")) {
            (Some(rest), _) => (rest, Some(Tls::V12)),
            (_, Some(rest)) => (rest, Some(Tls::V13)),
            (None, None) => (rest, None),
        };
        let control = |name: &str| Control::ALL.into_iter().find(|control| control.name() == name);
        let transport = match rest.split_once('-') {
            None if rest == "mptcp" => Some(Transport::Mptcp(Control::Cubic)),
            None if rest == "anabranch" => Some(Transport::Anabranch),
            Some(("tcp", name)) => control(name).map(Transport::Tcp),
            Some(("mptcp", name)) => control(name).map(Transport::Mptcp),
            _ => None,
        };
        let transport = transport.ok_or_else(|| UnknownStack(name.to_owned()))?;
        Ok(Self { transport, tls, buffers })
    }
}

impl TryFrom<String> for Stack {
    type Error = UnknownStack;

    fn try_from(name: String) -> Result<Self, UnknownStack> {
        name.parse()
    }
}

impl From<Stack> for String {
    fn from(stack: Stack) -> Self {
        stack.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "tcp-cubic",
            "tcp-reno-tls13",
            "tcp-bbr-tls12-default-buffers",
            "mptcp",
            "anabranch",
            "mptcp-tls12",
            "mptcp-bbr-default-buffers",
            "mptcp-buffers-256k",
            "mptcp-reno-tls13-buffers-256k",
        ] {
            assert_eq!(name.parse::<Stack>().unwrap().to_string(), name);
        }
        for wrong in [
            "",
            "tcp",
            "tcp-vegas",
            "mptcp-tls11",
            "sctp-cubic",
            "tcp-cubic-default-buffers-tls12",
            "mptcp-buffers-1k",
        ] {
            let fault = wrong.parse::<Stack>().unwrap_err().to_string();
            assert!(
                fault.contains("use tcp-cubic")
                    && fault.contains(" or anabranch")
                    && fault.lines().count() == 1,
                "{fault}"
            );
        }
    }
}
