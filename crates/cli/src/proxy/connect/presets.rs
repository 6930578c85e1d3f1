//! Named rules for UDP flows of common programs.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;

/// Rules for the flows of a kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Preset {
    /// Calls and conferences: each datagram on two paths, none that is older than 150 ms
    Calls,
    /// Games: each datagram on two paths, none that is older than 100 ms
    Games,
    /// QUIC inside the tunnel (UDP port 443): in order, with a wait of at most 150 ms
    Quic,
}

impl Preset {
    /// Returns the ports of servers.
    fn ports(self) -> &'static [RangeInclusive<u16>] {
        match self {
            // STUN and TURN (RFC 8489, RFC 8656), SIP (RFC 3261), media of Zoom and of Google Meet, and the range that many servers
            // use for RTP.
            Self::Calls => &[
                3_478..=3_481,
                5_060..=5_061,
                5_349..=5_349,
                8_801..=8_810,
                19_302..=19_309,
                16_384..=18_999,
            ],
            // Xbox and PlayStation, games of Valve's engine and of the Unreal engine, and Minecraft (Bedrock).
            Self::Games => &[3_074..=3_074, 7_777..=7_788, 19_132..=19_133, 27_000..=27_100],
            Self::Quic => &[443..=443],
        }
    }

    /// Returns whether the rules are for flows to `port`.
    pub(super) fn covers(self, port: u16) -> bool {
        self.ports().iter().any(|ports| ports.contains(&port))
    }

    pub(super) fn has_copies(self) -> bool {
        self != Self::Quic
    }

    pub(super) fn deadline(self) -> Option<Duration> {
        match self {
            Self::Calls => Some(Duration::from_millis(150)),
            Self::Games => Some(Duration::from_millis(100)),
            Self::Quic => None,
        }
    }

    pub(super) fn order(self) -> Option<Duration> {
        (self == Self::Quic).then_some(Duration::from_millis(150))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_in_two_presets() {
        for port in 1..=u16::MAX {
            let count = Preset::value_variants().iter().filter(|preset| preset.covers(port)).count();
            assert!(count <= 1, "{port}");
        }
        assert!(Preset::Calls.covers(5_060) && Preset::Games.covers(27_015) && Preset::Quic.covers(443));
    }
}
