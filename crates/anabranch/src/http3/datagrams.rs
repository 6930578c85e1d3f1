//! HTTP datagrams of one request (RFC 9297).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_wire::PathId;
use bytes::Bytes;

use super::Error;
use super::error::read_error;
use super::exchange::Exchange;
use crate::DatagramTerms;
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

    /// Queues a datagram. Those of one request keep to one path as long as it is not full, and share the
    /// connection evenly with those of other requests.
    ///
    /// # Errors
    /// Fails if the peer does not support datagrams, if the request's method is another than CONNECT, if the payload is too
    /// large, if the queue is full, or if the connection is lost.
    pub fn send(&self, payload: &[u8]) -> Result<(), SendDatagramError> {
        self.send_with(payload, &DatagramTerms::default())
    }

    /// Queues a datagram on these terms. Flows of different requests are different ones.
    ///
    /// # Errors
    /// Fails as [`Datagrams::send`] does.
    pub fn send_with(&self, payload: &[u8], terms: &DatagramTerms) -> Result<(), SendDatagramError> {
        self.0.update(|access, id| match access.connection_error() {
            Some(error) => Err(error.into()),
            None => {
                let (now, datagrams) = (access.now, access.core.datagrams());
                let sent = access.session.send_datagram_with(now, datagrams, id, payload, terms);
                sent.map_err(SendDatagramError::of)
            }
        })
    }

    /// Returns the maximum length of a datagram at present, in bytes; `None` if the peer does not support datagrams, or if
    /// the request's method is another than CONNECT. It may change with the paths.
    pub fn max_len(&self) -> Option<usize> {
        self.0.with_session(|access, id| access.session.max_datagram_len(access.core.datagrams(), id))
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
        self.poll_recv_from(cx).map_ok(|(_, datagram)| datagram)
    }

    /// Polls for the peer's next datagram like [`Datagrams::poll_recv`], with the path on which it arrived.
    pub(crate) fn poll_recv_from(&self, cx: &Context<'_>) -> Poll<Result<(PathId, Bytes), Error>> {
        self.0.poll(
            |access, id| match access.session.recv_datagram_from(id) {
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
