//! The process at the other end of a Unix socket.

use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::time::Duration;

use tokio::net::UnixStream;

/// Maximum time to wait for the other process's next bytes.
const EXCHANGE: Duration = Duration::from_secs(10);

/// Converts the stream for calls that wait, but not for ever.
pub(super) fn blocking(stream: UnixStream) -> io::Result<Blocking> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(EXCHANGE))?;
    stream.set_write_timeout(Some(EXCHANGE))?;
    Ok(stream)
}

/// Returns whether the process at the other end belongs to the user of this one.
pub(super) fn is_same_user(stream: &UnixStream) -> io::Result<bool> {
    let own = UnixStream::pair()?.0.peer_cred()?.uid();
    Ok(stream.peer_cred()?.uid() == own)
}
