//! TCP connections to one of several addresses ("Happy Eyeballs", RFC 8305).

use std::io;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::paths::{Candidate, RacePolicy};

/// Connects to the first candidate that accepts. The attempt on the next one begins after [`RacePolicy::delay`], and at once
/// when an attempt fails (RFC 8305 §5). The sockets get the mark, if there is one.
///
/// # Errors
/// Fails with the error of the last attempt if all have failed.
pub(super) async fn dial(
    candidates: Vec<Candidate>,
    race: RacePolicy,
    mark: Option<u32>,
) -> io::Result<TcpStream> {
    let mut left = candidates.into_iter().take(race.max_attempts());
    let mut running = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "there are no addresses to try");
    loop {
        let next = left.next();
        let is_last = next.is_none();
        if let Some(candidate) = next {
            running.spawn(connect(candidate, mark));
        } else if running.is_empty() {
            return Err(failure);
        }
        tokio::select! {
            Some(ended) = running.join_next() => match ended {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(panicked) => failure = panicked.into(),
            },
            () = sleep(race.delay()), if !is_last => {}
        }
    }
}

/// Connects to one candidate, from its local address and interface.
async fn connect(candidate: Candidate, mark: Option<u32>) -> io::Result<TcpStream> {
    let socket = if candidate.remote.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    #[cfg(target_os = "linux")]
    if let Some(mark) = mark {
        SockRef::from(&socket).set_mark(mark)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = mark;
    if let Some(local) = &candidate.local {
        local.bind_socket(&SockRef::from(&socket), 0)?;
    }
    let stream = socket.connect(candidate.remote).await?;
    // Without TCP_NODELAY small messages are late, and nothing breaks.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_does_not_matter() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let candidates = |addresses: &[SocketAddr]| addresses.iter().map(|one| (*one).into()).collect();
        let address = listener.local_addr().unwrap();
        let stream = dial(candidates(&[free, address]), RacePolicy::default(), None).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let error = dial(candidates(&[free]), RacePolicy::default(), None).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = dial(Vec::new(), RacePolicy::default(), None).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
