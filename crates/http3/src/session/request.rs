//! A request and its response on their stream.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::priority::Priority;

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
    /// Server: what the client said of its priority with a PRIORITY_UPDATE, which goes before the header
    /// (RFC 9218 §7).
    pub(super) priority: Option<Priority>,
    /// Server: it counts among those that were given up before they were answered.
    pub(super) is_charged: bool,
    /// The application has a handle, or had one.
    pub(super) is_accepted: bool,
    /// Server: whether the response may have content.
    pub(super) sends_content: bool,
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
            priority: None,
            is_charged: false,
            is_accepted: false,
            sends_content: true,
            is_delivered: false,
            is_released: false,
        }
    }
}

/// Whether a response to `method` may have content (RFC 9110 §6.4.1).
pub(super) fn may_have_content(method: &Method, status: StatusCode) -> bool {
    match status {
        // What follows is a tunnel.
        _ if method == Method::CONNECT && status.is_success() => true,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => false,
        _ => method != Method::HEAD,
    }
}
