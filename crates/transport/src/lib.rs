//! Sans-IO QUIC core: endpoint, connection, packet number spaces, paths, streams.
//!
//! The core has no clock, socket, thread or global randomness. A driver passes in the time and received
//! datagrams, and takes out datagrams to send, events and one deadline. [`Connection`] and [`Endpoint`]
//! document the contract.
#![forbid(unsafe_code)]

pub mod acknowledge;
mod config;
mod connection;
mod context;
pub mod datagram;
mod datagram_io;
mod endpoint;
mod error;
mod event;
mod flow;
mod named;
mod path;
mod random;
mod ranges;
pub mod schedule;
mod space;
pub mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod token;
pub mod trace;

pub use anabranch_recovery as recovery;
pub use anabranch_tls as tls;
pub use anabranch_wire as wire;
pub use config::{
    AckConfig, AckPath, AckScope, CidRotation, ClientConfig, EndpointConfig, FrequencyRule, Horizon,
    LossScan, MAX_PATHS, MultipathConfig, Numbering, NumberingChoice, PreferredAddresses, RangeOrder,
    RetryPolicy, ServerConfig, TransportConfig,
};
pub use connection::{ConnectError, ConnectTarget, Connection, ConnectionStats};
pub use datagram_io::{Datagram, FourTuple, MAX_BATCH_BYTES, Transmit, TransmitBuf};
pub use endpoint::*;
pub use error::{ConnectionError, Obstacle, Silence, TransportError};
pub use event::{EndpointEvent, Event};
pub use flow::WindowRule;
pub use named::UnknownName;
pub use path::{
    AckStats, AlternativeAddress, AnnounceError, Closure, IdleReason, MAX_CLOSED_PATHS, MigrateError,
    OpenPathError, PathError, PathInfo, PathState, PathStatus, PathTotals, SocketBlock,
};
