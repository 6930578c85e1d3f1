//! HTTP/3, which no crate provides for noq.

/// Client side, which reports that it is unsupported.
pub mod client {
    use std::path::Path;
    use std::sync::Arc;

    use peer_common::Failure;
    use peer_common::args::Requests;
    use peer_common::progress::Progress;
    use quinn::Connection;

    fn unsupported<T>() -> Result<T, Failure> {
        Err(Failure::Unsupported("there is no HTTP/3 for noq".into()))
    }

    /// Fails, because HTTP/3 is unsupported.
    pub async fn fetch(
        _: &Connection,
        _: Option<&Path>,
        _: &[String],
        _: &Arc<Progress>,
    ) -> Result<(), Failure> {
        unsupported()
    }

    /// Fails, because HTTP/3 is unsupported.
    pub async fn repeat(_: &[Connection], _: &Requests) -> Result<u64, Failure> {
        unsupported()
    }
}

/// Server side.
pub mod server {
    use std::path::PathBuf;

    /// Does nothing: it is never called, because the server does not offer `h3`.
    pub async fn serve(_: quinn::Connection, _: Option<PathBuf>) {}
}
