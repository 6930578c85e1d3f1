//! HTTP/3, which no crate brings to noq.

/// The client's side.
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

    /// Cannot.
    pub async fn fetch(
        _: &Connection,
        _: Option<&Path>,
        _: &[String],
        _: &Arc<Progress>,
    ) -> Result<(), Failure> {
        unsupported()
    }

    /// Cannot.
    pub async fn repeat(_: &[Connection], _: &Requests) -> Result<u64, Failure> {
        unsupported()
    }
}

/// The server's side.
pub mod server {
    use std::path::PathBuf;

    /// Never called: the server does not agree on `h3`.
    pub async fn serve(_: quinn::Connection, _: Option<PathBuf>) {}
}
