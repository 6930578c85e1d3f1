//! One server: its connection, and requests to it.

use anabranch::{ClientConfig, Connection, VarInt, ZeroRttAccepted};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::http3::{self, Code};
use serde_json::json;
use tokio::sync::OnceCell;

use super::answer::Answer;
use super::ask::Errand;
use crate::events::{ConnectionEvents, Events};
use crate::exit::{self, Result};
use crate::hq;
use crate::multipath::{ClientPaths, Managed};
use crate::target::{self, LazyEndpoint, Reached, Target};

/// Interval of PINGs on a connection that is not being read from. It is well below usual idle timeouts.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Settings of every connection.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) endpoint: LazyEndpoint,
    pub(super) config: ClientConfig,
    /// `true` for hq-interop, `false` for HTTP/3.
    pub(super) hq: bool,
    /// Paths that connections use.
    pub(super) paths: ClientPaths,
    /// Maximum time until a server's first response.
    pub(super) timeout: Duration,
    /// Destination of events.
    pub(super) events: Events,
}

impl Terms {
    /// Returns the time that a blocked output may delay reading before a PING is due.
    pub(super) fn pause(&self) -> Duration {
        self.config.transport().max_idle_timeout().map_or(KEEP_ALIVE, |idle| KEEP_ALIVE.min(idle / 2))
    }
}

/// One server, with its connection.
#[derive(Debug)]
pub(super) struct Origin {
    protocol: Protocol,
    timeout: Duration,
    /// Future of the server's decision on early data; the first waiter takes it.
    early_data: Mutex<Option<ZeroRttAccepted>>,
    accepted: OnceCell<bool>,
    paths: Managed,
    watch: ConnectionEvents,
}

#[derive(Debug)]
enum Protocol {
    Hq(Connection),
    Http3(http3::Connection),
}

impl Origin {
    pub(super) async fn connect(target: &Target, terms: &Terms) -> Result<Arc<Self>> {
        let reached =
            target::connect(target, &terms.endpoint, &terms.config, &terms.paths, terms.timeout).await;
        let Reached { connection, early_data } = reached.inspect_err(|failure| {
            let (server, error, exit) = (target.authority(), failure.to_string(), failure.exit() as u8);
            let fields = || json!({ "server": server, "error": error, "exit": exit });
            terms.events.tell("connection_failed", fields);
        })?;
        let watch = ConnectionEvents::new(&connection, &terms.events);
        if early_data.is_none() {
            watch.established();
        }
        let paths = terms.paths.manage(&connection);
        let protocol = match terms.hq {
            true => Protocol::Hq(connection),
            false => Protocol::Http3(http3::Connection::new(connection, http3::Config::default())),
        };
        let early_data = Mutex::new(early_data);
        let (timeout, accepted) = (terms.timeout, OnceCell::new());
        Ok(Arc::new(Self { protocol, timeout, early_data, accepted, paths, watch }))
    }

    /// Returns the reason why the connection had only one path, if several were requested.
    pub(super) fn why_single(&self) -> Option<String> {
        self.paths.why_single(self.connection())
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_lost(&self) -> bool {
        self.connection().close_reason().is_some()
    }

    /// Closes the connection without an error.
    pub(super) fn close(&self) {
        match &self.protocol {
            Protocol::Hq(connection) => connection.close(VarInt::from_u32(0), b""),
            Protocol::Http3(connection) => connection.quic().close(Code::NO_ERROR.into(), b""),
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        match &self.protocol {
            Protocol::Hq(connection) => connection,
            Protocol::Http3(connection) => connection.quic(),
        }
    }

    /// Sends a request and waits for the beginning of the response.
    pub(super) async fn ask(&self, target: &Target, errand: &Errand) -> Result<Answer> {
        if !errand.is_safe() {
            self.early_data_accepted(target).await?;
        }
        let mut answer = match &self.protocol {
            Protocol::Hq(connection) => Answer::hq(hq::ask(connection, &target.path).await?),
            Protocol::Http3(connection) => {
                let request = errand.request(target)?;
                match errand.payload() {
                    None => Answer::http3(connection.request_without_body(request).await?),
                    Some(payload) => {
                        let (send, receive) = connection.request(request).await?;
                        Answer::http3(receive).during(payload.clone().send(send))
                    }
                }
            }
        };
        self.early_data_accepted(target).await?;
        // The timeout does not apply while content is being sent, because the server does not determine how long
        // that takes.
        let patient = errand.payload().is_some();
        let timeout = if patient { Duration::MAX } else { self.timeout };
        target::within(target, timeout, Some(self.connection()), answer.begin()).await?;
        Ok(answer)
    }

    /// Waits for the handshake if early data was sent before it was complete. Returns whether the server
    /// accepted the early data, or the handshake's failure.
    pub(super) async fn early_data_accepted(&self, target: &Target) -> Result<bool> {
        let accept = || async {
            let early_data = self.early_data.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(early_data) = early_data else { return Ok(false) };
            let answer = async {
                let accepted = early_data.await;
                match self.connection().close_reason() {
                    Some(error) if !accepted => Err(exit::handshake(error)),
                    _ => Ok(accepted),
                }
            };
            let accepted = target::within(target, self.timeout, Some(self.connection()), answer).await?;
            self.watch.established();
            Ok(accepted)
        };
        self.accepted.get_or_try_init(accept).await.copied()
    }
}
