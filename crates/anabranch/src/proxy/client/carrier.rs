//! Connections that carry tunnels, in either version of HTTP.

use std::sync::Arc;

use super::connect::Live;
use super::fallback;
use super::head::Head;
use super::stream::{StreamError, TunnelReceiver, TunnelSender};
use crate::http3;

/// A connection to the proxy.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    Quic(Arc<Live>),
    Tcp(Arc<fallback::Connection>),
}

impl Carrier {
    /// Returns whether the proxy supports extended CONNECT (RFC 9220, RFC 8441). Waits for its SETTINGS.
    pub(super) async fn supports_extended_connect(&self) -> Result<bool, StreamError> {
        match self {
            Self::Quic(live) => Ok(live.http3.settings().await?.enable_connect_protocol),
            Self::Tcp(connection) => Ok(connection.supports_extended_connect()),
        }
    }

    /// Sends a request, as soon as the limit of streams allows it.
    pub(super) async fn request(&self, head: &Head) -> Result<(TunnelSender, TunnelReceiver), StreamError> {
        match self {
            Self::Quic(live) => {
                let (send, receive) = live.http3.request(head.http3()).await?;
                Ok((send.into(), receive.into()))
            }
            Self::Tcp(connection) => {
                let (send, receive) = connection.request(head.http2()).await?;
                Ok((send.into(), receive.into()))
            }
        }
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub(super) fn end(&self) -> Option<StreamError> {
        match self {
            Self::Quic(live) => {
                let reason = live.http3.quic().close_reason();
                reason.map(|reason| http3::Error::ConnectionLost(reason).into())
            }
            Self::Tcp(connection) => connection.end().map(StreamError::Http2),
        }
    }
}
