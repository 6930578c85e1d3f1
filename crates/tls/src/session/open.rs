//! State of a session while the TLS library is needed.

use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::quic::Connection;

use super::keylog::SecretTap;
use super::tickets::VersionTickets;
use crate::{EarlySecret, Suite};

/// State of a session whose handshake goes on, or whose peer may send tickets.
pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) tap: Arc<SecretTap>,
    /// Secret of 0-RTT packets, until the caller takes it.
    pub(super) early: Option<EarlySecret>,
    /// Ticket store of a client's connection, to which the session reports the negotiated version.
    pub(super) tickets: Option<Arc<VersionTickets>>,
}

impl Open {
    /// Returns the negotiated cipher suite.
    pub(super) fn suite(&self) -> Option<Suite> {
        self.connection.negotiated_cipher_suite().and_then(Suite::from_rustls)
    }

    /// Returns the host name that the client requested; for servers.
    pub(super) fn server_name(&self) -> Option<&str> {
        match &self.connection {
            Connection::Client(_) => None,
            Connection::Server(server) => server.server_name(),
        }
    }

    /// Returns whether this session resumes an earlier one.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the ticket store if the handshake is complete.
    pub(super) fn tickets_after_handshake(&self) -> Option<&Arc<VersionTickets>> {
        self.tickets.as_ref().filter(|_| !self.connection.is_handshaking())
    }
}
