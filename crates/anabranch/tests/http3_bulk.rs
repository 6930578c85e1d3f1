//! Large bodies over the loopback interface. They have their own process, whose memory use is measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::http3::{Body, Client, Error, Server};
use anabranch::{Endpoint, SelfSigned, config};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;

/// Number of bytes in each direction.
const TOTAL: usize = 200_000_000;
const PIECE: usize = 64 * 1024;
/// Maximum memory growth in bytes. Both endpoints have a send buffer of 16 MiB and a window of 24 MiB, and
/// some of these bytes may exist twice.
const MAX_GROWTH: usize = 112 << 20;

/// A large body that uses no memory.
struct Repeated {
    piece: Bytes,
    left: usize,
}

impl http_body::Body for Repeated {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let n = self.left.min(self.piece.len());
        self.left -= n;
        let piece = self.piece.slice(..n);
        Poll::Ready((n > 0).then_some(Ok(Frame::data(piece))))
    }
}

/// Returns the resident memory of this process in bytes.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_both_ways_take_little_memory() {
    let identity = SelfSigned::new(["localhost"]).unwrap();
    let endpoint =
        Endpoint::server(identity.server_config(["h3"]).unwrap(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("https://localhost:{}/", endpoint.local_addr().unwrap().port());
    let echo = tower::service_fn(|request: Request<Body>| async {
        Ok::<_, Error>(Response::new(request.into_body()))
    });
    tokio::spawn(Server::new(endpoint, echo).serve());
    let client_endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Client::new(client_endpoint, config::client(identity.roots().unwrap(), ["h3"]).unwrap());
    let piece: Bytes = (0..PIECE).map(|i| (i * 7 / 3) as u8).collect();
    let before = resident();
    let request = Request::post(url).body(Repeated { piece: piece.clone(), left: TOTAL }).unwrap();
    let reading = async {
        let mut response = client.request(request).await.unwrap();
        let (mut seen, mut most) = (0, 0);
        let mut compare = |bytes: &[u8]| {
            let at = seen % PIECE;
            let n = bytes.len().min(PIECE - at);
            assert_eq!(bytes[..n], piece[at..at + n], "at byte {seen}");
            seen += n;
            n
        };
        while response.body_mut().read_with(&mut compare).await.unwrap().is_some() {
            most = most.max(resident().unwrap_or(0));
        }
        (seen, most)
    };
    let (seen, most) = tokio::time::timeout(Duration::from_secs(300), reading).await.unwrap();
    assert_eq!(seen, TOTAL);
    if let Some(before) = before {
        let growth = most.saturating_sub(before);
        assert!(growth < MAX_GROWTH, "{} MiB", growth >> 20);
    }
}
