//! Connections of a client.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use msquic::{
    Configuration, Connection, ConnectionEvent, ConnectionRef, CredentialConfig, Registration, StatusCode,
};
use peer_common::args::{Case, Client};
use peer_common::{Failure, failed};

use crate::{configuration, open, owned, param};

/// Time without any event after which a client fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Message from a callback to the main thread.
pub enum News {
    /// The handshake is complete; `true` if a session was resumed.
    Connected(bool),
    /// A connection has ended, with or without an error.
    Closed,
    /// A stream has ended, after this number of bytes was received.
    Received(u64),
    /// A session ticket.
    Ticket(Vec<u8>),
    /// DATAGRAM frames can be sent.
    Datagrams,
    /// An echo of this length.
    Echo(usize),
    /// The server does not have the version, which its Version Negotiation packet says.
    NoVersion,
    Failed(String),
}

/// Handles of the library, in the order in which they must be closed.
pub struct Caller<'a> {
    configuration: Configuration,
    registration: Registration,
    pub options: &'a Client,
    server: SocketAddr,
}

impl<'a> Caller<'a> {
    pub fn new(options: &'a Client, server: SocketAddr) -> Result<Self, Failure> {
        let registration = open(&options.common)?;
        let configuration =
            configuration(&registration, &options.common, &[options.work.alpn()], Some(options.case))?;
        let ca = options.ca.display().to_string();
        let mut credential = CredentialConfig::new_client().set_ca_certificate_file(ca);
        if options.case == Case::ChaCha20 {
            credential = credential
                .set_allowed_cipher_suites(msquic::AllowedCipherSuiteFlags::CHACHA20_POLY1305_SHA256);
        }
        configuration.load_credential(&credential)?;
        Ok(Self { configuration, registration, options, server })
    }

    /// Starts a connection, which resumes a session if there is a ticket.
    pub fn connect(&self, tell: &Sender<News>, ticket: Option<&[u8]>) -> Result<Connection, Failure> {
        let connection = self.prepare(tell, ticket)?;
        self.start(&connection)?;
        Ok(connection)
    }

    /// Creates a connection that is not started yet.
    pub fn prepare(&self, tell: &Sender<News>, ticket: Option<&[u8]>) -> Result<Connection, Failure> {
        let tell = tell.clone();
        let connection = Connection::open(&self.registration, move |_: ConnectionRef, event| {
            if let Some(news) = heard(&event) {
                // If the main thread has ended, messages are discarded.
                let _ = tell.send(news);
            }
            Ok(())
        })?;
        param::remote(&connection, self.server)?;
        if let Some(ticket) = ticket {
            param::ticket(&connection, ticket)?;
        }
        Ok(connection)
    }

    /// Starts a connection.
    pub fn start(&self, connection: &Connection) -> Result<(), Failure> {
        Ok(connection.start(&self.configuration, &self.options.name, self.server.port())?)
    }
}

/// Returns what an event means for the main thread.
fn heard(event: &ConnectionEvent<'_>) -> Option<News> {
    Some(match event {
        ConnectionEvent::Connected { session_resumed, .. } => News::Connected(*session_resumed),
        ConnectionEvent::ShutdownInitiatedByTransport { status, error_code } => {
            match status.try_as_status_code() {
                Ok(StatusCode::QUIC_STATUS_VER_NEG_ERROR) => News::NoVersion,
                // Nothing else makes the transport abort a client's connection.
                Ok(StatusCode::QUIC_STATUS_ABORTED) => {
                    News::Failed("stateless reset by the server".to_owned())
                }
                _ => {
                    News::Failed(format!("the connection failed with status {status}, code {error_code:#x}"))
                }
            }
        }
        ConnectionEvent::ShutdownInitiatedByPeer { error_code } => {
            News::Failed(format!("closed by the server: {error_code}"))
        }
        ConnectionEvent::ShutdownComplete { .. } => News::Closed,
        ConnectionEvent::ResumptionTicketReceived { resumption_ticket } => {
            News::Ticket(resumption_ticket.to_vec())
        }
        ConnectionEvent::DatagramStateChanged { send_enabled: true, .. } => News::Datagrams,
        ConnectionEvent::DatagramReceived { buffer, .. } => News::Echo(buffer.as_bytes().len()),
        ConnectionEvent::DatagramSendStateChanged { client_context, state } => {
            owned::datagram_state(*client_context, *state);
            return None;
        }
        _ => return None,
    })
}

/// Returns the next message.
pub fn next(told: &Receiver<News>) -> Result<News, Failure> {
    match told.recv_timeout(PATIENCE)? {
        News::Failed(why) => failed(why),
        News::NoVersion => failed("the server does not have this version"),
        news => Ok(news),
    }
}

/// Returns the next message, or `None` if there is none for some time.
pub fn next_within(told: &Receiver<News>, time: Duration) -> Result<Option<News>, Failure> {
    match told.recv_timeout(time) {
        Ok(News::Failed(why)) => failed(why),
        Ok(news) => Ok(Some(news)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the handshake. The end of an earlier connection is ignored. Returns whether a session was resumed.
pub fn connected(told: &Receiver<News>) -> Result<bool, Failure> {
    loop {
        if let News::Connected(resumed) = next(told)? {
            return Ok(resumed);
        }
    }
}

/// Closes a connection and waits for its end.
pub fn close(connection: &Connection, told: &Receiver<News>) -> Result<(), Failure> {
    connection.shutdown(msquic::ConnectionShutdownFlags::NONE, 0);
    while !matches!(told.recv_timeout(PATIENCE)?, News::Closed) {}
    Ok(())
}
