//! Random scenarios. A seed determines the network, two configurations, the applications' actions and the
//! disturbances. Each run checks that everything ended as expected.

mod draw;
mod run;

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::{RetryPolicy, TransportConfig};
use anabranch_wire::{Time, Version};

use crate::app::exchange::ConnectionPlan;
use crate::link::LinkSpec;

pub use run::Report;

/// Complete description of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed from which the other fields were drawn; printed with every failure.
    pub seed: u64,
    /// Links from the client's first and second address to the server.
    pub links: [LinkSpec; 2],
    /// The client's transport configuration.
    pub client: TransportConfig,
    /// The server's transport configuration.
    pub server: TransportConfig,
    /// Lengths in bytes of the client's and the server's connection IDs.
    pub cid_len: [usize; 2],
    /// Version of the client's first flight.
    pub initial_version: Version,
    /// Policy by which the server sends Retry packets.
    pub retry: RetryPolicy,
    /// Plans of the connections, which run one after the other.
    pub plans: Vec<ConnectionPlan>,
    /// Disturbances, each with its time after the handshake is confirmed.
    pub disturbances: Vec<(Duration, Disturbance)>,
    /// Times at which both links are down.
    pub blackouts: Vec<Range<Time>>,
}

/// External disturbance of a connection.
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
    /// The server forgets all TLS sessions and gives later connections smaller limits. So it rejects early
    /// data of a client that resumes a session.
    ForgetSessions,
}

impl Disturbance {
    /// Returns true if the disturbance is a change of a NAT's mapping. Neither end is informed of such a
    /// change.
    fn is_rebinding(self) -> bool {
        matches!(self, Self::RebindPort | Self::RebindAddress)
    }
}
