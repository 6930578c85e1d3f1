//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) over the streams of a QUIC connection, without I/O.
//!
//! A [`Session`] works on the streams of a connection that its owner drives:
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use anabranch_transport::wire::{Side, Time};
//! # use anabranch_transport::*;
//! use anabranch_http3::{Config, Session};
//! use anabranch_transport::Event;
//! # fn carry(now: Time, from: &mut Endpoint, to: &mut Endpoint) {
//! #     let mut buffer = TransmitBuf::new(1);
//! #     while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
//! #         let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
//! #         let payload = &mut buffer.filled(&transmit).to_vec();
//! #         to.handle_batch(now, &mut [Datagram { tuple, ecn: None, payload }]);
//! #     }
//! # }
//! # anabranch_testkit::seeded::seed_thread(1);
//! # let trust = anabranch_testkit::seeded::Trust::new("server.test");
//! # let (client_tls, server_tls) = trust.pair("h3");
//! # let server_config = Arc::new(ServerConfig::new(server_tls));
//! # let mut server = Endpoint::new(&EndpointConfig::new([1; 32]), Some(server_config));
//! # server.set_auto_accept(true);
//! # let mut client = Endpoint::new(&EndpointConfig::new([2; 32]), None);
//! # let tuple = FourTuple { local: "192.0.2.1:1000".parse()?, remote: "192.0.2.2:443".parse()? };
//! # let handle = client.connect(Time::ZERO, &ClientConfig::new(client_tls), tuple, "server.test")?;
//! # let mut now = Time::ZERO;
//! # while client.connection(handle).is_some_and(|connection| !connection.is_confirmed()) {
//! #     now = now + Duration::from_millis(10);
//! #     carry(now, &mut client, &mut server);
//! #     carry(now, &mut server, &mut client);
//! # }
//! # let connection = client.connection(handle).ok_or("the handshake failed")?;
//!
//! // The client sends its settings and a request.
//! let mut session = Session::new(Side::Client, Config::default());
//! session.start(connection.streams());
//! let (request, ()) = http::Request::get("https://server.test/").body(())?.into_parts();
//! session.request(connection.streams(), &request, true).map_err(|error| error.to_string())?;
//! # carry(now, &mut client, &mut server);
//!
//! // The server's session handles each stream event, and hands out the requests.
//! let mut session = Session::new(Side::Server, Config::default());
//! while let Some((handle, event)) = server.poll_event() {
//!     let connection = server.connection(handle).ok_or("the connection is gone")?;
//!     if let Event::Stream(event) = event {
//!         session.on_event(connection.streams(), event);
//!     }
//! }
//! let (_, request) = session.accept().ok_or("no request has arrived")?;
//! assert_eq!(request.uri, "https://server.test/");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod capsule;
mod config;
mod datagram;
mod error;
pub mod frame;
pub mod message;
mod priority;
pub mod qpack;
mod session;
mod settings;
mod stream_type;
pub mod trace;
mod varints;

pub use config::Config;
pub use datagram::{datagram_overhead, decode_datagram, encode_datagram};
pub use error::{Code, Error};
pub use priority::Priority;
pub use session::{Event, ReadError, RequestError, Session, WriteError};
pub use settings::{MAX_SETTINGS, Settings};
pub use stream_type::{StreamType, is_reserved, reserved};
