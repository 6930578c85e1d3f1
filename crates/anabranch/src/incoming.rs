//! Clients that request a connection and have not been accepted yet.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_transport::{
    self as core, Accepted, ConnectionError, Response, StoredDatagram, TransportError,
};
use anabranch_wire::TransportErrorCode;
use tracing::debug;

use crate::connection::{Connecting, Connection};
use crate::endpoint_inner::EndpointInner;
use crate::log::ENDPOINT;

/// A client that requests a connection. It uses hardly any resources until it is accepted. Dropping it
/// refuses the client. Awaiting it accepts the connection and waits for the handshake.
#[derive(Debug)]
pub struct Incoming {
    endpoint: Arc<EndpointInner>,
    /// `None` once the client was accepted, refused, ignored or sent a Retry.
    inner: Option<core::Incoming>,
}

impl Incoming {
    pub(crate) fn new(endpoint: Arc<EndpointInner>, inner: core::Incoming) -> Self {
        Self { endpoint, inner: Some(inner) }
    }

    /// Accepts the client, and begins the handshake.
    ///
    /// # Errors
    /// Fails if the endpoint is closed or has its maximum number of connections. The client is then refused.
    pub fn accept(mut self) -> Result<Connecting, ConnectionError> {
        let refused = || {
            let code = TransportErrorCode::CONNECTION_REFUSED;
            ConnectionError::Transport(TransportError::new(code, "the endpoint takes no more connections"))
        };
        let Some(inner) = self.inner.take() else { return Err(refused()) };
        let now = self.endpoint.driver.now();
        let name = inner.original_dcid();
        let mut table = self.endpoint.table();
        let Some(config) = table.router.server().filter(|_| !table.closed).cloned() else {
            drop(table);
            // Dropping `self` refuses the client.
            self.inner = Some(inner);
            return Err(refused());
        };
        let Accepted { handle, start, mut datagrams, .. } = match table.router.accept(now, inner) {
            Ok(accepted) => accepted,
            Err(refusal) => {
                drop(table);
                self.dealt_with(refusal);
                return Err(refused());
            }
        };
        let (shared, seed) = (table.router.shared(), table.router.next_seed());
        let watchers = table.watchers.clone();
        let connection = core::Connection::server(now, config, shared, seed, &start);
        let connection = self.endpoint.admit(table, handle, connection, |state| {
            state.trace = watchers.watch(now, &mut state.core, Some(name), state.log.observer());
            let mut batch: Vec<_> = datagrams.iter_mut().map(StoredDatagram::as_datagram).collect();
            state.core.handle_batch(now, &mut batch);
        });
        Ok(Connecting::new(connection))
    }

    /// Sends `response` to the client, and wakes the driver, which may now be able to end.
    fn dealt_with(&self, response: Option<Response>) {
        self.endpoint.respond(response);
        self.endpoint.driver.wake();
    }

    /// Refuses the client with CONNECTION_REFUSED.
    pub fn refuse(mut self) {
        self.refuse_inner();
    }

    fn refuse_inner(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        debug!(target: ENDPOINT, peer = %inner.remote_address(), "a client is refused");
        let refusal = self.endpoint.table().router.refuse(self.endpoint.driver.now(), inner);
        self.dealt_with(refusal);
    }

    /// Sends the client a Retry packet, which asks it for a token that proves its address (RFC 9000 §8.1.2).
    ///
    /// # Errors
    /// Returns the client if it has been asked for a token before.
    pub fn retry(mut self) -> Result<(), Self> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        debug!(target: ENDPOINT, peer = %inner.remote_address(), "a client is to prove its address");
        let result = self.endpoint.table().router.retry(self.endpoint.driver.now(), inner);
        match result {
            Ok(response) => {
                self.dealt_with(Some(response));
                Ok(())
            }
            Err(inner) => {
                self.inner = Some(inner);
                Err(self)
            }
        }
    }

    /// Drops the client without a response.
    pub fn ignore(mut self) {
        if let Some(inner) = self.inner.take() {
            self.endpoint.table().router.ignore(inner);
            self.dealt_with(None);
        }
    }

    /// Returns the client's address, which may be forged until it is validated.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        let address = self.inner.as_ref()?.remote_address();
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// Returns whether the client's address is validated.
    pub fn remote_address_validated(&self) -> bool {
        self.inner.as_ref().is_some_and(core::Incoming::address_validated)
    }

    /// Returns whether [`Incoming::retry`] is possible.
    pub fn may_retry(&self) -> bool {
        self.inner.as_ref().is_some_and(core::Incoming::may_retry)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.refuse_inner();
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

/// Future that waits for the handshake of an [`Incoming`].
#[derive(Debug)]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
