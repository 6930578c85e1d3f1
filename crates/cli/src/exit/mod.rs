//! Failures of commands: one line on standard error, and an exit status for scripts.

mod alert;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anabranch::{
    AttemptError, ConnectError, ConnectionError, ReadError, ReadExactError, TransportErrorCode, WriteError,
    config, http3,
};

use crate::screen;

/// Exit statuses. 0 is success; 2 is what the argument parser uses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command line, or a file that it names, is invalid.
    Usage = 2,
    /// A host name could not be resolved.
    Resolution = 3,
    /// The handshake failed for a reason other than the certificate.
    Handshake = 4,
    /// A certificate is not trusted.
    Certificate = 5,
    /// The peer violated the protocol, or did not do what the request asked for.
    Protocol = 6,
    /// The peer did not respond in time.
    Timeout = 7,
    /// Reading or writing a file or a socket failed.
    Io = 8,
    /// The address to listen on is in use.
    BusyPort = 9,
    /// A signal ended the command early.
    Interrupted = 10,
    /// The server responded with an HTTP status of 300 or more.
    Http = 11,
    /// Results are incomplete.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "only the lab has results"))]
    Incomplete = 12,
    /// A network path that the command line names does not exist or cannot be used.
    NoPath = 13,
    /// The process may not do what the command needs, such as change routes.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux is changed"))]
    NotPermitted = 14,
    /// The system has no TUN device.
    #[cfg_attr(
        not(all(feature = "vpn", target_os = "linux")),
        expect(dead_code, reason = "only a VPN needs one")
    )]
    NoTun = 15,
    /// Another VPN runs on this host.
    #[cfg_attr(
        not(all(feature = "vpn", target_os = "linux")),
        expect(dead_code, reason = "only a VPN conflicts")
    )]
    SecondVpn = 16,
    /// A test case of the interop runner failed, for any reason.
    Failed = 1,
    /// The interop runner's test case is unknown.
    UnknownCase = 127,
}

/// Explanation of the statuses, for the help of the commands that use them.
pub(crate) const STATUSES: &str = "\
Exit status: 0 success, 2 usage, 3 name resolution, 4 handshake, 5 certificate, 6 protocol, 7 timeout,
8 files and sockets, 9 port in use, 10 interrupted by a signal, 11 HTTP status of 300 or more,
12 results of the lab that are not whole, 13 a network path that was named and cannot be used, 14 not permitted,
15 no TUN device, 16 another VPN runs.";

/// Chance that a retry helps after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Passing {
    /// The failure would occur again.
    #[default]
    Never,
    /// An existing connection or stream was lost.
    Lost,
    /// The server has not processed the request, so that it can be sent again at once, on another connection (RFC 9114 §4.1.1).
    Unprocessed,
    /// The peer did not respond, or could not be reached.
    Unanswered,
}

/// A command's failure: the fault and its remedy.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    remedy: Option<String>,
    passing: Passing,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl fmt::Display) -> Self {
        Self { exit, what: what.to_string(), remedy: None, passing: Passing::Never }
    }

    pub(crate) fn or(mut self, remedy: impl fmt::Display) -> Self {
        self.remedy = Some(remedy.to_string());
        self
    }

    /// Returns the failure with `subject` in front, unless the text names it already.
    pub(crate) fn about(mut self, subject: &str) -> Self {
        if !self.what.contains(subject) {
            self.what = format!("{subject}: {}", self.what);
        }
        self
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(Exit::Io, format!("{what}: {error}"))
    }

    /// Returns the failure with the chance `passing` that a retry helps.
    pub(crate) fn passing(self, passing: Passing) -> Self {
        Self { passing, ..self }
    }

    pub(crate) fn may_pass(&self) -> Passing {
        self.passing
    }

    /// Returns the failure with the number of retries.
    pub(crate) fn after(self, tries: u32) -> Self {
        let what = match tries {
            0 => self.what,
            1 => format!("{} (tried again once)", self.what),
            _ => format!("{} (tried again {tries} times)", self.what),
        };
        Self { what, ..self }
    }

    /// Returns the fault without its remedy.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Returns the failure with another status.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints the failure on standard error, on one line, and returns its status.
    pub(crate) fn report(&self) -> ExitCode {
        self.say();
        ExitCode::from(self.exit as u8)
    }

    /// Prints the failure like [`Self::report`], for a command that continues.
    pub(crate) fn say(&self) {
        note(format_args!("anabranch: {}", one_line(&self.to_string())));
    }
}

/// Replaces line breaks, and escapes characters that could control a terminal: peers determine part of the
/// text.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Writes a line to standard output.
pub(crate) fn say(line: impl fmt::Display) -> Result {
    let mut out = io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.map_err(|error| Failure::io("cannot write to standard output", &error))
}

/// Writes a line to standard error, above the progress bars. An error cannot be reported and is ignored.
pub(crate) fn note(line: impl fmt::Display) {
    let _ = screen::above(|| writeln!(io::stderr(), "{line}"));
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "; {remedy}"))
    }
}

impl From<config::ConfigError> for Failure {
    fn from(error: config::ConfigError) -> Self {
        Self::new(Exit::Usage, error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Socket(error) => {
                Self::io("cannot bind a UDP socket", &error).passing(Passing::Unanswered)
            }
            error => Self::new(Exit::Usage, error),
        }
    }
}

impl From<ConnectionError> for Failure {
    /// Converts the error. Only the caller knows whether the handshake was complete, so `Handshake` is set by
    /// [`handshake`].
    fn from(error: ConnectionError) -> Self {
        if let Some(alert) = alert::explain(&error) {
            return alert;
        }
        match error {
            ConnectionError::TimedOut(silence) if silence.heard.is_none() => {
                Self::new(Exit::Timeout, "the peer has never answered")
                    .or(UNANSWERED)
                    .passing(Passing::Unanswered)
            }
            ConnectionError::TimedOut(silence) => {
                let failure = Self::new(Exit::Timeout, format!("the connection is lost: {silence}"));
                failure.or("check this host's network, or whether the peer still runs").passing(Passing::Lost)
            }
            ConnectionError::Unreachable(obstacle) => {
                let remedy = match obstacle.kind {
                    io::ErrorKind::ConnectionRefused => "nothing listens there; check address and port",
                    io::ErrorKind::PermissionDenied => "check this host's firewall",
                    _ => "check this host's network and routes",
                };
                Self::new(Exit::Io, format!("cannot reach the server: {obstacle}"))
                    .or(remedy)
                    .passing(Passing::Unanswered)
            }
            ConnectionError::Reset | ConnectionError::PeerApplication { .. } => {
                Self::new(Exit::Protocol, error).passing(Passing::Lost)
            }
            // A server that stops, or is overloaded at present, sends these codes.
            ConnectionError::PeerTransport(ref closed) if PASSING_CODES.contains(&closed.code) => {
                Self::new(Exit::Protocol, error).passing(Passing::Lost)
            }
            ConnectionError::HandshakeTimedOut => Self::new(Exit::Timeout, error).passing(Passing::Lost),
            _ => Self::new(Exit::Protocol, error),
        }
    }
}

/// Codes of a server's CONNECTION_CLOSE after which a new connection may succeed.
const PASSING_CODES: [TransportErrorCode; 3] = [
    TransportErrorCode::NO_ERROR,
    TransportErrorCode::INTERNAL_ERROR,
    TransportErrorCode::CONNECTION_REFUSED,
];

/// Remedy for a peer that never responds.
const UNANSWERED: &str = "check address, port and firewalls for UDP";

/// Converts the failure of all attempts to connect.
pub(crate) fn attempt(error: AttemptError) -> Failure {
    match error {
        AttemptError::NotBegun(error) => error.into(),
        AttemptError::Handshake(error) => handshake(error),
        error => Failure::new(Exit::Io, error).passing(Passing::Unanswered),
    }
}

/// Converts a failure of the handshake.
pub(crate) fn handshake(error: ConnectionError) -> Failure {
    match Failure::from(error) {
        failure if failure.exit == Exit::Protocol => failure.with_exit(Exit::Handshake),
        failure => failure,
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ConnectionLost(error) => error.into(),
            error @ ReadError::Reset(_) => Self::new(Exit::Protocol, error).passing(Passing::Lost),
            error => Self::new(Exit::Protocol, error),
        }
    }
}

impl From<ReadExactError> for Failure {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::Read(error) => error.into(),
            error => Self::new(Exit::Protocol, error),
        }
    }
}

impl From<http3::Error> for Failure {
    fn from(error: http3::Error) -> Self {
        match error {
            http3::Error::ConnectionLost(error) => error.into(),
            http3::Error::Connect(error) => error.into(),
            error @ (http3::Error::Url { .. } | http3::Error::Invalid(_)) => Self::new(Exit::Usage, error),
            error @ http3::Error::Resolve { .. } => Self::new(Exit::Resolution, error),
            error @ http3::Error::TooSlow => Self::new(Exit::Timeout, error),
            error @ http3::Error::Rejected => Self::new(Exit::Protocol, error).passing(Passing::Unprocessed),
            error @ http3::Error::Reset(_) => Self::new(Exit::Protocol, error).passing(Passing::Lost),
            error => Self::new(Exit::Protocol, error),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(error) => error.into(),
            error => Self::new(Exit::Protocol, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::VarInt;

    use super::*;
    use anabranch::TransportError;
    use anabranch::{Obstacle, Silence};

    /// TLS alert `no_application_protocol` (RFC 7301 §3.2).
    const NO_APPLICATION_PROTOCOL: u8 = 120;

    #[test]
    fn blame_decides_the_status() {
        let tls =
            |alert| ConnectionError::Transport(TransportError::new(TransportErrorCode::crypto(alert), "no"));
        assert_eq!(Failure::from(tls(48)).exit(), Exit::Certificate);
        assert_eq!(handshake(tls(48)).exit(), Exit::Certificate);
        assert_eq!(handshake(tls(NO_APPLICATION_PROTOCOL)).exit(), Exit::Handshake);
        let never = || ConnectionError::TimedOut(Silence::default());
        assert_eq!(handshake(never()).exit(), Exit::Timeout);
        let refused = io::Error::from_raw_os_error(111);
        let refused = handshake(ConnectionError::Unreachable(Obstacle::from(&refused)));
        assert_eq!(refused.exit(), Exit::Io);
        assert!(
            refused.to_string().contains("refused") && refused.to_string().contains("listens"),
            "{refused}"
        );
        assert_eq!(Failure::from(ConnectionError::Reset).exit(), Exit::Protocol);
        let lost = Failure::from(ReadError::ConnectionLost(never()));
        assert_eq!(lost.exit(), Exit::Timeout);
        assert!(lost.to_string().starts_with("the peer has never answered"), "{lost}");
        assert_eq!(Failure::from(ReadError::Reset(VarInt::from_u32(1))).exit(), Exit::Protocol);
    }

    #[test]
    fn what_peers_say_stays_on_its_line() {
        let reason = b"\x1b[2Jgone\r\nanabranch: \xc2\x9b31m\xff".as_slice();
        let closed = ConnectionError::PeerApplication { code: VarInt::from_u32(1), reason: reason.into() };
        let line = one_line(&Failure::from(closed).to_string());
        assert!(line.ends_with("\\u{1b}[2Jgone  anabranch: \\u{9b}31m\u{fffd}"), "{line}");
    }

    #[test]
    fn a_failure_says_what_is_wrong_and_what_to_do() {
        let failure = Failure::new(Exit::Usage, "no such file").or("name one");
        assert_eq!(failure.to_string(), "no such file; name one");
    }
}
