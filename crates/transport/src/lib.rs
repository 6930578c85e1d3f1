//! Sans-IO QUIC core: endpoint, connection, packet number spaces, paths, streams.
//!
//! The core has no clock, socket, thread or global randomness. A driver passes in the time and received
//! datagrams, and takes out datagrams to send, events and one deadline. [`Connection`] and [`Endpoint`]
//! document the contract.
//!
//! Two endpoints in one process, with virtual time and without sockets:
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! use anabranch_transport::wire::{Dir, Time};
//! use anabranch_transport::{
//!     ClientConfig, Datagram, Endpoint, EndpointConfig, FourTuple, ServerConfig, TransmitBuf,
//! };
//!
//! /// Delivers everything that `from` has to send.
//! fn carry(now: Time, from: &mut Endpoint, to: &mut Endpoint) {
//!     let mut buffer = TransmitBuf::new(1);
//!     while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
//!         let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
//!         let payload = &mut buffer.filled(&transmit).to_vec();
//!         to.handle_batch(now, &mut [Datagram { tuple, ecn: None, payload }]);
//!     }
//! }
//!
//! # anabranch_testkit::seeded::seed_thread(1);
//! # let trust = anabranch_testkit::seeded::Trust::new("server.test");
//! # let (client_tls, server_tls) = trust.pair("example");
//! let server_config = Arc::new(ServerConfig::new(server_tls));
//! // Each endpoint's random choices follow from 32 bytes, which must be random and secret outside of tests.
//! let mut server = Endpoint::new(&EndpointConfig::new([1; 32]), Some(server_config));
//! server.set_auto_accept(true);
//! let mut client = Endpoint::new(&EndpointConfig::new([2; 32]), None);
//!
//! let tuple = FourTuple { local: "192.0.2.1:1000".parse()?, remote: "192.0.2.2:443".parse()? };
//! let handle = client.connect(Time::ZERO, &ClientConfig::new(client_tls), tuple, "server.test")?;
//! let mut now = Time::ZERO;
//! while client.connection(handle).is_some_and(|connection| !connection.is_confirmed()) {
//!     now = now + Duration::from_millis(10);
//!     carry(now, &mut client, &mut server);
//!     carry(now, &mut server, &mut client);
//! }
//! let streams = client.connection(handle).ok_or("the handshake failed")?.streams();
//! let id = streams.open(Dir::Uni).ok_or("the server allows no stream")?;
//! assert_eq!(streams.write(id, b"hello")?, 5);
//! carry(now, &mut client, &mut server);
//!
//! let (accepted, _) = server.poll_event().ok_or("nothing happened")?;
//! let streams = server.connection(accepted).ok_or("the connection is gone")?.streams();
//! let id = streams.accept(Dir::Uni).ok_or("no stream has arrived")?;
//! assert_eq!(streams.peek(id)?, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
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
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
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
    OpenPathError, PathError, PathInfo, PathState, PathStatus, PathTotals, REORDERING_DELAYS,
    REORDERING_DISTANCES, ReorderingStats, SocketBlock,
};
