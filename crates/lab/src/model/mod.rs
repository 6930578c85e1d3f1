//! Random operations on a connection with several paths while both ends send. Paths are opened, abandoned,
//! killed, revived, rebound, migrated and marked as backup, and keys are updated, in any order. Each run
//! checks that all invariants held.
//!
//! `cargo run --release -p anabranch-lab --example model -- 10000` runs 10000 seeds, `-- 1 SEED` repeats one.
//! The invariants are listed at [`Model::run`].

mod draw;
mod peer;
mod run;

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::TransportConfig;
use anabranch_wire::{Dir, Side};

use crate::link::LinkSpec;

pub use run::Report;

/// Complete description of a run.
#[derive(Clone, Debug)]
pub struct Model {
    /// Seed from which the other fields were drawn; printed with every failure.
    pub seed: u64,
    /// Links, each from its own client address.
    pub links: Vec<LinkSpec>,
    /// The client's transport configuration.
    pub client: TransportConfig,
    /// The server's transport configuration.
    pub server: TransportConfig,
    /// Lengths in bytes of the client's and the server's connection IDs.
    pub cid_len: [usize; 2],
    /// Operations of both ends, sorted by time. Each time counts from the confirmation of the handshake.
    pub operations: Vec<(Duration, Operation)>,
    /// Disturbances of the links. Their times count from the confirmation of the handshake at both ends.
    pub disturbances: Vec<Disturbance>,
}

/// Operation of one end. An operation that is impossible at its time is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The client opens a path over a link. Its local port is the client's first port plus `port`.
    Open {
        /// Number of the link.
        link: u8,
        /// Offset from the client's first port. With different ports, several paths share a link.
        port: u16,
    },
    /// An end sends bytes on a new stream.
    Send {
        /// End that sends.
        from: Side,
        /// Type of the stream. The other end replies only on a bidirectional stream.
        dir: Dir,
        /// Number of bytes that the opening end sends.
        length: u64,
        /// Number of bytes that the other end sends back.
        reply: u64,
    },
    /// An end sends a DATAGRAM frame.
    SendDatagram {
        /// End that sends.
        from: Side,
        /// Number of payload bytes.
        length: u16,
    },
    /// An end abandons one of its paths.
    Abandon {
        /// End that abandons the path.
        from: Side,
        /// Position of the path among the end's paths, modulo their number.
        nth: u8,
    },
    /// An end changes the status of one of its paths.
    Status {
        /// End that changes the path's status.
        from: Side,
        /// Position of the path among the end's paths, modulo their number.
        nth: u8,
        /// `true` for available, `false` for backup.
        available: bool,
    },
    /// The client moves its main path to another link.
    Migrate {
        /// Number of the link.
        link: u8,
        /// Offset from the client's first port.
        port: u16,
    },
    /// An end initiates a key update.
    UpdateKeys {
        /// End that initiates the key update.
        from: Side,
    },
}

impl Operation {
    /// Returns the end that performs the operation.
    fn side(self) -> Side {
        match self {
            Self::Open { .. } | Self::Migrate { .. } => Side::Client,
            Self::Send { from, .. }
            | Self::SendDatagram { from, .. }
            | Self::Abandon { from, .. }
            | Self::Status { from, .. }
            | Self::UpdateKeys { from } => from,
        }
    }
}

/// Disturbance of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The link drops all packets.
    Kill {
        /// Number of the link.
        link: u8,
        /// Start and end of the outage.
        window: Range<Duration>,
        /// Affected directions: to the server, and to the client.
        ways: [bool; 2],
    },
    /// A NAT in front of the client changes the client's public port, and perhaps its address.
    Rebind {
        /// Number of the link.
        link: u8,
        /// Time of the change.
        at: Duration,
        /// `true` if the IP address changes, too.
        address: bool,
    },
}
