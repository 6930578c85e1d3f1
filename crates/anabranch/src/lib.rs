//! QUIC (RFC 9000) over tokio: endpoints, connections, streams and datagrams.
//!
//! [`Endpoint`] binds a UDP socket, [`Connection`] opens and accepts streams, [`SendStream`] and
//! [`RecvStream`] transfer bytes. The protocol itself is the sans-IO core in the crate `anabranch-transport`.
//! This crate drives the core with sockets, a clock and tasks.
//!
//! The API resembles that of other Rust QUIC libraries, with one addition: [`RecvStream::read_with`] lends
//! received bytes without copying them.
//!
//! Two environment variables have an effect. Configurations from [`config`] write secrets for packet captures
//! to the file `SSLKEYLOGFILE`. With the feature `qlog`, every endpoint writes a trace of each connection to
//! the directory `QLOGDIR`.
//!
//! Events of connections and paths are reported to `tracing`, in spans `connection` and `path`. Targets begin
//! with `anabranch::` (`endpoint`, `connection`, `path`, `http3`, `recovery`, `packet`, `trace`). Without a
//! subscriber this costs nothing.
//!
//! # Features
//!
//! All but `proxy` are enabled by default. Without them the library is QUIC over tokio, and the program supplies root
//! certificates or a certificate verifier ([`tls::ClientConfig`]).
//!
//! | Feature | Adds |
//! |---|---|
//! | `http3` | HTTP/3: the module `http3` |
//! | `interfaces` | `PathPolicy`, `PathManager`, clients that follow the routing table |
//! | `native-roots` | `config::system_roots` |
//! | `proxy` | tunnels over HTTP/3 and HTTP/2: the module `proxy`; not enabled by default |
//! | `qlog` | traces in files: `Endpoint::set_qlog_dir`, the variable `QLOGDIR` |
//! | `self-signed` | `SelfSigned` |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

/// Programs of the project's README, which are compiled as doc tests.
#[cfg(all(doctest, feature = "http3", feature = "self-signed"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod clock;
pub mod config;
mod connect;
mod connection;
mod connection_inner;
mod driver;
mod driver_handle;
mod endpoint;
mod endpoint_inner;
mod error;
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "hand_over/absent.rs")]
mod hand_over;
#[cfg(feature = "http3")]
pub mod http3;
mod incoming;
mod lock;
mod log;
#[cfg(all(test, feature = "model"))]
mod model;
mod observe;
pub mod paths;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "qlog")]
mod qlog;
#[cfg(not(feature = "qlog"))]
#[path = "qlog/absent.rs"]
mod qlog;
mod racing;
mod recv_stream;
mod refusals;
mod runtime;
mod send_stream;
mod session;
#[cfg_attr(all(test, feature = "model"), path = "model/socket.rs")]
mod socket;
mod socket_set;
mod sync;
mod tokens;
mod wakers;
mod workers;

pub use anabranch_tls::rustls;
pub use anabranch_transport::datagram::Terms as DatagramTerms;
pub use anabranch_transport::recovery::{
    Config as RecoveryConfig, LossDelay, MtuConfig, Stats as RecoveryStats, UnknownLossDelay,
};
pub use anabranch_transport::schedule::Route;
pub use anabranch_transport::stream::{ClosedStream, Priority, ReceivedBytes, StreamsConfig};
pub use anabranch_transport::{
    AckConfig, AckStats, AlternativeAddress, AnnounceError, CidRotation, ClientConfig, Closure,
    ConnectError as ConnectRefusal, ConnectionError, ConnectionStats, EndpointConfig, FourTuple, IdleReason,
    LoadBalancing, LossScan, MAX_PATHS, MAX_WORKERS, MigrateError, MultipathConfig, Numbering,
    NumberingChoice, Obstacle, OpenPathError as PathRefusal, PathError, PathInfo, PathState, PathStatus,
    PathTotals, PreferredAddresses, REORDERING_DELAYS, REORDERING_DISTANCES, ReorderingStats, RetryPolicy,
    ServerConfig, ServerId, ServerIdDecoder, Silence, TransportConfig, TransportError, UnknownName,
    WindowRule,
};
pub use anabranch_wire::{
    ConnectionId, Dir, InvalidSetting, PathId, RegisterError, Side, StreamId, TransportErrorCode, VarInt,
    VarIntTooLarge, Version, alert_name,
};

#[cfg(feature = "self-signed")]
pub use crate::config::SelfSigned;
pub use crate::connection::{Connecting, Connection, HandshakeData, ZeroRttAccepted};
pub use crate::endpoint::{Endpoint, random_config};
pub use crate::error::{
    AttemptError, ConnectError, EndpointError, ExportError, OpenPathError, ReadError, ReadExactError,
    ReadToEndError, SendDatagramError, WriteError,
};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use crate::hand_over::{HandOver, MAX_OLDER_PROCESSES};
pub use crate::incoming::{Incoming, IncomingFuture};
pub use crate::paths::{
    Candidate, LocalAddress, PathAttempt, PathEvent, PathEvents, RacePolicy, unspecified_for,
};
#[cfg(feature = "interfaces")]
pub use crate::paths::{PathChooser, PathManager, PathPolicy, PathRule, PathUse};
pub use crate::racing::Racing;
pub use crate::recv_stream::{Chunk, RecvStream};
pub use crate::send_stream::SendStream;
pub use crate::tokens::AddressToken;
pub use crate::workers::bind_workers;

/// Any error, for programs that only report errors.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Items for programs that supply their own acknowledgment strategy, which decides when ACK frames are sent.
pub mod acknowledge {
    pub use anabranch_transport::acknowledge::{
        AckArrival, AckRule, AckStrategy, AckStrategyFactory, AckTiming, CustomAckStrategy,
    };
    pub use anabranch_transport::{AckPath, AckScope, FrequencyRule, Horizon, RangeOrder};
}

/// Items for programs that choose the congestion controller of each path or supply their own.
pub mod congestion {
    pub use anabranch_transport::recovery::congestion::{
        Acked, Algorithm, Congested, Controller, ControllerFactory, CustomController, Departure, LostPacket,
        RateSample, Sibling, Start, State, UnknownAlgorithm,
    };
    pub use anabranch_transport::recovery::{InitialWindow, PacingBurst, PacingGain, Rtt};
}

/// Items for programs that choose a scheduler or supply their own.
pub mod schedule {
    pub use anabranch_transport::schedule::{
        Algorithm, CustomScheduler, PathView, Pick, Scheduler, SchedulerFactory, UnknownAlgorithm, Views,
        Work,
    };
}

/// Events of a connection as they happen, for observers ([`Endpoint::set_observer`]).
pub mod trace {
    pub use anabranch_transport::trace::{DropReason, Observer, PacketTrace, TimerKind, TraceEvent};
    pub use anabranch_wire::{
        Ack, AckRanges, AddressFlags, ConnectionClose, Direction, EcnCounts, Frame, FrameError, Frames,
        NewConnectionId, PacketKind, ParameterError, PreferredAddress, ResetToken, SpaceId, Stream, Time,
        TransportParameters, VersionInformation,
    };
}

/// TLS configurations, for programs that create a [`ClientConfig`] or a [`ServerConfig`] from one of their
/// own.
pub mod tls {
    pub use anabranch_tls::{
        ClientConfig, ClientConfigBuilder, ConfigError, ServerConfig, ServerConfigBuilder, TICKET_KEY_LEN,
        TicketKeys, TicketKeysError,
    };
}
