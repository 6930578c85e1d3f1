//! State of a request and its response on one stream.

use std::collections::VecDeque;

use anabranch_wire::PathId;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::heads::Heads;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::message::{InvalidMessage, Malformed, content_length};
use crate::priority::Priority;

/// Both directions of a request stream.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Method of the request. On a server it is valid once the header section has arrived.
    pub(super) method: Method,
    /// Client: header sections of the response that the application has not taken yet.
    pub(super) heads: Heads,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) datagrams: VecDeque<(PathId, Bytes)>,
    /// Server: priority from the client's PRIORITY_UPDATE, which overrides the header (RFC 9218 §7).
    pub(super) priority: Option<Priority>,
    /// Server: `true` if the request was counted as cancelled or invalid before the response.
    pub(super) is_charged: bool,
    /// `true` if the application has accepted the request (server) or made it (client).
    pub(super) is_accepted: bool,
    /// Server: `true` if the response may have content.
    pub(super) sends_content: bool,
    /// Number of content bytes that must still be written according to this endpoint's content-length.
    pub(super) promised: Option<u64>,
    /// `true` if the peer's header section has arrived and was passed on for the application.
    pub(super) is_delivered: bool,
    /// `true` if the application has released the request.
    pub(super) is_released: bool,
}

impl Request {
    pub(super) fn new(method: Method) -> Self {
        Self {
            incoming: Incoming::new(),
            outgoing: Outgoing::new(),
            method,
            heads: Heads::default(),
            trailers: None,
            datagrams: VecDeque::new(),
            priority: None,
            is_charged: false,
            is_accepted: false,
            sends_content: true,
            promised: None,
            is_delivered: false,
            is_released: false,
        }
    }

    /// Checks that `more` bytes of content do not exceed this endpoint's content-length.
    pub(super) fn check_more(&self, more: usize) -> Result<(), InvalidMessage> {
        match self.promised {
            Some(promised) if promised < more as u64 => Err(UNTRUE_LENGTH),
            _ => Ok(()),
        }
    }
}

/// Error for content that was not sent because it would make the message malformed (RFC 9114 §4.1.2).
const UNTRUE_LENGTH: InvalidMessage = InvalidMessage("the content is not as long as content-length says");

/// Returns the length that `content-length` declares for the content that this endpoint sends.
pub(super) fn promised_length(headers: &HeaderMap) -> Result<Option<u64>, InvalidMessage> {
    content_length(headers).map_err(|Malformed(why)| InvalidMessage(why))
}

/// Checks that `written` equals the number of bytes that content-length still requires.
pub(super) fn check_written(promised: Option<u64>, written: usize) -> Result<(), InvalidMessage> {
    match promised {
        Some(promised) if promised != written as u64 => Err(UNTRUE_LENGTH),
        _ => Ok(()),
    }
}

/// Returns whether a response to `method` may have content (RFC 9110 §6.4.1).
pub(super) fn may_have_content(method: &Method, status: StatusCode) -> bool {
    match status {
        // A tunnel follows.
        _ if method == Method::CONNECT && status.is_success() => true,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => false,
        _ => method != Method::HEAD,
    }
}
