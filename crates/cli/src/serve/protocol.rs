//! Protocols of requests.

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    Hq,
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Returns the protocol's name in the access log and the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hq => "hq",
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        }
    }
}
