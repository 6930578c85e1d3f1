//! The `date` field that a server with a clock adds to its responses (RFC 9110 §6.6.1).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use http::header::DATE;
use http::response::Parts;

/// The current date, rendered at most once a second.
#[derive(Debug, Default)]
pub(super) struct DateCache {
    second: u64,
    rendered: Option<HeaderValue>,
}

impl DateCache {
    /// Reads the clock, and renders the date if the second has changed.
    pub(super) fn refresh(&mut self) {
        let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.rendered.is_none() || second != self.second {
            self.second = second;
            self.rendered = render(UNIX_EPOCH + Duration::from_secs(second));
        }
    }

    /// Returns the date of the last [`refresh`](Self::refresh).
    pub(super) fn get(&self) -> Option<HeaderValue> {
        self.rendered.clone()
    }
}

/// Returns the current date.
pub(super) fn now() -> Option<HeaderValue> {
    render(SystemTime::now())
}

/// Adds the `date` field, unless the service has set it.
pub(super) fn add(parts: &mut Parts, date: impl FnOnce() -> Option<HeaderValue>) {
    if !parts.headers.contains_key(DATE)
        && let Some(date) = date()
    {
        parts.headers.insert(DATE, date);
    }
}

fn render(time: SystemTime) -> Option<HeaderValue> {
    HeaderValue::try_from(httpdate::fmt_http_date(time)).ok()
}
