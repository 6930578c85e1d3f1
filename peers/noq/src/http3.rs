//! HTTP/3, which no crate provides for noq.

/// Nothing, where other peers have a connection as h3 uses it.
pub struct Transport;

/// Returns nothing.
pub fn transport(_: &quinn::Connection) -> Transport {
    Transport
}

/// Client side, which reports that it is unsupported.
pub mod client {
    use std::path::Path;
    use std::sync::Arc;

    use peer_common::Failure;
    use peer_common::args::Requests;
    use peer_common::latency::Latencies;
    use peer_common::progress::Progress;

    use super::Transport;

    fn unsupported<T>() -> Result<T, Failure> {
        Err(Failure::Unsupported("there is no HTTP/3 for noq".into()))
    }

    /// Fails, because HTTP/3 is unsupported.
    pub async fn fetch(
        _: Transport,
        _: Option<&Path>,
        _: &[String],
        _: &Arc<Progress>,
    ) -> Result<(), Failure> {
        unsupported()
    }

    /// Fails, because HTTP/3 is unsupported.
    pub async fn repeat(_: Vec<Transport>, _: &Requests) -> Result<(u64, Latencies), Failure> {
        unsupported()
    }
}

/// Server side.
pub mod server {
    use std::path::PathBuf;

    use super::Transport;

    /// Does nothing: it is never called, because the server does not offer `h3`.
    pub async fn serve(_: Transport, _: Option<PathBuf>) {}
}
