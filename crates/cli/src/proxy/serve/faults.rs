//! Messages on standard error about clients whose certificates are missing or not accepted.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{Connection, ConnectionError, rustls};

use crate::exit::{note, one_line};

/// Maximum number of lines in each period. Further clients are counted, and the next period's first line has
/// their number.
const MAX_LINES: u32 = 10;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// Reporter of clients whose certificates are missing or not accepted.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Option<Period>>);

#[derive(Debug)]
struct Period {
    begun: Instant,
    lines: u32,
    /// Number of clients that were not reported.
    others: u64,
}

impl Faults {
    /// Reports the client of a QUIC connection that was closed because of the client's certificate.
    pub(super) fn quic(&self, client: SocketAddr, connection: &Connection) {
        if let Some(ConnectionError::Transport(error)) = connection.close_reason()
            && error.code.alert().is_some_and(|alert| matches!(alert, 42..=49 | 116))
        {
            self.tell(client, &error.reason);
        }
    }

    /// Reports the client of a TLS handshake over TCP that failed because of the client's certificate.
    pub(super) fn tls(&self, client: SocketAddr, error: &std::io::Error) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        if let Some(cause @ (rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_))) =
            cause
        {
            self.tell(client, cause);
        }
    }

    fn tell(&self, client: SocketAddr, why: &dyn Display) {
        if let Some(line) = self.line(Instant::now(), client, why) {
            note(format_args!("anabranch: {}", one_line(&line)));
        }
    }

    /// Returns the line for a client; `None` if the period has [`MAX_LINES`] already.
    fn line(&self, now: Instant, client: SocketAddr, why: &dyn Display) -> Option<String> {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = period.take_if(|period| now.duration_since(period.begun) >= PERIOD);
        let period = period.get_or_insert(Period { begun: now, lines: 0, others: 0 });
        if period.lines >= MAX_LINES {
            period.others += 1;
            return None;
        }
        period.lines += 1;
        let others = over.filter(|over| over.others > 0);
        let others = others.map(|over| format!(" ({} more before)", over.others)).unwrap_or_default();
        Some(format!("{client}: no acceptable client certificate: {why}{others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_lines_are_written_in_a_period() {
        let (faults, now) = (Faults::default(), Instant::now());
        let client = ([192, 0, 2, 1], 5).into();
        let lines = (0..MAX_LINES + 7).filter_map(|_| faults.line(now, client, &"UnknownIssuer")).count();
        assert_eq!(lines, MAX_LINES as usize);
        let next = faults.line(now + PERIOD, client, &"UnknownIssuer").unwrap();
        assert_eq!(next, "192.0.2.1:5: no acceptable client certificate: UnknownIssuer (7 more before)");
        assert!(!faults.line(now + PERIOD, client, &"x").unwrap().contains("before"));
    }
}
