//! A request and its response on their stream.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::incoming::Incoming;
use super::outgoing::Outgoing;

/// Both directions of a request stream.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// On a server, once its head has arrived.
    pub(super) method: Method,
    /// Client: heads of the response that wait to be taken.
    pub(super) heads: VecDeque<http::response::Parts>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) datagrams: VecDeque<Bytes>,
    /// The application knows of the peer's message.
    pub(super) is_delivered: bool,
    /// The application has no handle any longer.
    pub(super) is_released: bool,
}

impl Request {
    pub(super) fn new(method: Method) -> Self {
        Self {
            incoming: Incoming::new(),
            outgoing: Outgoing::new(),
            method,
            heads: VecDeque::new(),
            trailers: None,
            datagrams: VecDeque::new(),
            is_delivered: false,
            is_released: false,
        }
    }
}
