//! Random scenarios: from a seed to a network, two configurations, what the applications do and what disturbs
//! them; and whether everything ended as it must.

mod draw;
mod run;

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::{RetryPolicy, TransportConfig};
use anabranch_wire::{Time, Version};

use crate::app::exchange::ConnectionPlan;
use crate::link::LinkSpec;

pub use run::Report;

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed from which the rest was drawn; printed with every failure.
    pub seed: u64,
    /// Links between the client's first and second address and the server.
    pub links: [LinkSpec; 2],
    /// The client's transport.
    pub client: TransportConfig,
    /// The server's transport.
    pub server: TransportConfig,
    /// Lengths of the client's and the server's connection IDs.
    pub cid_len: [usize; 2],
    /// Version of the client's first flight.
    pub initial_version: Version,
    /// Policy by which the server sends Retry packets.
    pub retry: RetryPolicy,
    /// Connections, one after the other.
    pub plans: Vec<ConnectionPlan>,
    /// Disturbances, with their times after a handshake is confirmed.
    pub disturbances: Vec<(Duration, Disturbance)>,
    /// Times at which both links are down.
    pub blackouts: Vec<Range<Time>>,
}

/// Something that happens to a connection from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A NAT in front of the client changes the port of its first address.
    RebindPort,
    /// A NAT in front of the client changes IP address and port of its first address.
    RebindAddress,
    /// The client moves to its other address.
    Migrate,
    /// The client updates its keys.
    UpdateClientKeys,
    /// The server updates its keys.
    UpdateServerKeys,
    /// The server forgets all TLS sessions and gives later connections smaller limits, so that early data of
    /// a client that remembers is refused.
    ForgetSessions,
}

impl Disturbance {
    /// Returns whether a NAT's mapping changes, of which neither end is informed.
    fn is_rebinding(self) -> bool {
        matches!(self, Self::RebindPort | Self::RebindAddress)
    }
}
