//! Cases: actions of the client, and the reaction that they require of the server.

use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use h3i::actions::h3::{Action, StreamEvent, StreamEventType, WaitType};
use h3i::client::connection_summary::ConnectionSummary;
use h3i::client::sync_client;
use h3i::config::Config;
use h3i::frame::H3iFrame;
use h3i::quiche::ConnectionError;

use crate::script::{FIRST, SECOND, get};

/// Idle timeout in milliseconds, after which a connection without any packet of the server ends.
const PATIENCE_MS: u64 = 3_000;
/// H3_NO_ERROR, with which this client closes a connection that the server leaves open.
const NO_ERROR: u64 = 0x100;

/// Case with a connection of its own: actions, and the required reaction of the server.
pub struct Case {
    pub name: &'static str,
    pub expected: Outcome,
    pub actions: Vec<Action>,
}

/// Reaction of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server closes the connection with this application error code.
    Close(u64),
    /// The server resets the first request with this code, whether or not a response has begun. The
    /// connection remains open, and the server responds to the next request.
    Reset(u64),
    /// The server responds to the first request with this status.
    Answer(u16),
    /// Any other reaction, in words.
    Other(String),
}

impl Case {
    /// Creates a case in which the server must close the connection.
    pub fn closes(name: &'static str, code: u64, actions: Vec<Action>) -> Self {
        Self { name, expected: Outcome::Close(code), actions }
    }

    /// Creates a case in which the server must reset only the first request. `actions` send only that
    /// request.
    pub fn resets(name: &'static str, code: u64, actions: Vec<Action>) -> Self {
        Self::resets_before(name, code, actions, get(SECOND))
    }

    /// Creates such a case with `second` as the next, correct request on [`SECOND`], which shows that the
    /// connection remains open.
    pub fn resets_before(name: &'static str, code: u64, mut actions: Vec<Action>, second: Action) -> Self {
        actions.extend([end_of(FIRST), second, end_of(SECOND), goodbye()]);
        Self { name, expected: Outcome::Reset(code), actions }
    }

    /// Creates a case in which the server must respond to the first request normally.
    pub fn answered(name: &'static str, mut actions: Vec<Action>) -> Self {
        actions.extend([end_of(FIRST), goodbye()]);
        Self { name, expected: Outcome::Answer(200), actions }
    }

    /// Connects, performs the actions and returns the server's reaction.
    pub fn run(&self, server: SocketAddr) -> Outcome {
        let config = Config::new()
            .with_host_port("localhost:443".to_owned())
            .with_connect_to(server.to_string())
            .verify_peer(false)
            .with_idle_timeout(PATIENCE_MS);
        // h3i panics if it cannot write to a stream. The server then reacted before the end of the case's
        // actions.
        match catch_unwind(AssertUnwindSafe(|| sync_client::connect(config, self.actions.clone(), None))) {
            Ok(Ok(summary)) => observed(&summary),
            Ok(Err(error)) => Outcome::Other(format!("no connection: {error:?}")),
            Err(_) => Outcome::Other("a stream that takes no data".to_owned()),
        }
    }
}

fn end_of(stream_id: u64) -> Action {
    WaitType::StreamEvent(StreamEvent { stream_id, event_type: StreamEventType::Finished }).into()
}

fn goodbye() -> Action {
    Action::ConnectionClose {
        error: ConnectionError { is_app: true, error_code: NO_ERROR, reason: Vec::new() },
    }
}

fn observed(summary: &ConnectionSummary) -> Outcome {
    if let Some(error) = summary.conn_close_details.peer_error() {
        return match error.is_app {
            true => Outcome::Close(error.error_code),
            false => Outcome::Other(format!("transport error {:#x}", error.error_code)),
        };
    }
    if let Some(error) = summary.conn_close_details.local_error().filter(|error| error.error_code != NO_ERROR)
    {
        return Outcome::Other(format!("an error that the client found: {:#x}", error.error_code));
    }
    let reset = summary.stream_map.stream(FIRST).into_iter().find_map(|frame| match frame {
        H3iFrame::ResetStream(reset) => Some(reset.error_code),
        _ => None,
    });
    match (reset, status(summary, FIRST), status(summary, SECOND)) {
        (Some(code), _, Some(200)) => Outcome::Reset(code),
        (Some(code), _, second) => Outcome::Other(format!("reset {code:#x}, but then the answer {second:?}")),
        (None, Some(status), _) => Outcome::Answer(status),
        (None, None, _) => Outcome::Other("nothing".to_owned()),
    }
}

fn status(summary: &ConnectionSummary, stream: u64) -> Option<u16> {
    let headers = summary.stream_map.headers_on_stream(stream);
    let digits = headers.first()?.status_code()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close(code) => write!(f, "close {code:#x}"),
            Self::Reset(code) => write!(f, "reset {code:#x}"),
            Self::Answer(status) => write!(f, "answer {status}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}
