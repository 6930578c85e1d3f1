//! Random operations on a connection with several paths: opened, given up, killed, revived, rebound,
//! migrated, marked as backup, with new keys in between, in any order, while both ends send; and whether
//! everything held that must.
//!
//! `cargo run --release -p anabranch-lab --example model -- 10000` runs that many seeds, `-- 1 SEED` repeats
//! one. What must hold is listed at [`Model::run`].

mod draw;
mod peer;
mod run;

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::TransportConfig;
use anabranch_wire::{Dir, Side};

use crate::link::LinkSpec;

pub use run::Report;

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Model {
    /// Seed from which the rest was drawn; printed with every failure.
    pub seed: u64,
    /// Links, each from another address of the client.
    pub links: Vec<LinkSpec>,
    /// The client's transport.
    pub client: TransportConfig,
    /// The server's transport.
    pub server: TransportConfig,
    /// Lengths of the client's and the server's connection IDs.
    pub cid_len: [usize; 2],
    /// Operations of the ends, in order of time, with the time after the handshake is confirmed.
    pub operations: Vec<(Duration, Operation)>,
    /// Disturbances of the links; their times count from the confirmation of the handshake at both ends.
    pub disturbances: Vec<Disturbance>,
}

/// Operation of one end. Not every operation is possible at all times; an impossible one is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The client opens a path over a link, from a port so far above its first one.
    Open {
        /// Number of the link.
        link: u8,
        /// Added to the first port: several paths may share a link.
        port: u16,
    },
    /// An end sends bytes on a new stream.
    Send {
        /// End that sends.
        from: Side,
        /// Type of the stream: bidirectional if the other end may answer.
        dir: Dir,
        /// Bytes from the end that opens the stream.
        length: u64,
        /// Bytes back.
        reply: u64,
    },
    /// An end sends a DATAGRAM.
    SendDatagram {
        /// End that sends.
        from: Side,
        /// Bytes.
        length: u16,
    },
    /// An end gives up one of its paths.
    Abandon {
        /// End that gives up the path.
        from: Side,
        /// Position among the end's paths, modulo their number.
        nth: u8,
    },
    /// An end changes its mind about what one of its paths is for.
    Status {
        /// End that changes the path's status.
        from: Side,
        /// Position among the end's paths, modulo their number.
        nth: u8,
        /// Available or backup.
        available: bool,
    },
    /// The client moves its main path to another link.
    Migrate {
        /// Number of the link.
        link: u8,
        /// Added to the first port.
        port: u16,
    },
    /// An end asks for new keys.
    UpdateKeys {
        /// End that asks for new keys.
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
    /// Nothing gets through.
    Kill {
        /// Number of the link.
        link: u8,
        /// From when to when.
        window: Range<Duration>,
        /// Directions that are affected: to the server, and back.
        ways: [bool; 2],
    },
    /// A NAT in front of the client begins to show another port, and perhaps another address.
    Rebind {
        /// Number of the link.
        link: u8,
        /// Time of the change.
        at: Duration,
        /// `true` if the IP address changes, too.
        address: bool,
    },
}
