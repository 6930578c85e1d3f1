//! HTTP datagrams of one request (RFC 9297).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::Error;
use super::error::read_error;
use super::exchange::Exchange;
use crate::error::SendDatagramError;

/// The HTTP datagrams of one request. Each is sent once and may be lost.
///
/// Services find this value among the extensions of requests with the method CONNECT.
#[derive(Clone, Debug)]
pub struct Datagrams(Arc<Exchange>);

impl Datagrams {
    pub(super) fn new(exchange: Arc<Exchange>) -> Self {
        Self(exchange)
    }

    /// Queues a datagram.
    ///
    /// # Errors
    /// Fails if the peer does not support datagrams, if the payload is too large, if the queue is full, or if
    /// the connection is lost.
    pub fn send(&self, payload: &[u8]) -> Result<(), SendDatagramError> {
        self.0.update(|access, id| match access.connection_error() {
            Some(error) => Err(error.into()),
            None => {
                let sent = access.session.send_datagram(access.core.datagrams(), id, payload);
                sent.map_err(SendDatagramError::of)
            }
        })
    }

    /// Waits for the peer's next datagram. Only the last task that polled is woken.
    ///
    /// # Errors
    /// Fails if the connection is lost, or if the receiving half of the request has ended: it was read to its
    /// end, stopped or reset.
    pub async fn recv(&self) -> Result<Bytes, Error> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls [`Datagrams::recv`].
    ///
    /// # Errors
    /// Fails as [`Datagrams::recv`] does.
    pub fn poll_recv(&self, cx: &Context<'_>) -> Poll<Result<Bytes, Error>> {
        self.0.poll(
            |access, id| match access.session.recv_datagram(id) {
                Some(message) => Ok(message),
                None => Err(access.session.read_end(id).map(|end| read_error(end).unwrap_or(Error::Closed))),
            },
            |access, id| {
                access.tasks.wait_for_datagrams(id, cx);
                false
            },
        )
    }
}
