//! Graceful shutdown of connections, and requests that are sent again.

use anabranch::{ConnectionError, VarInt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anabranch::http3::{Body, Code, Error, Server};
use tokio::sync::{Notify, oneshot};

use super::support::{Site, full, text, within};

/// Starts a server whose requests for "/slow" wait for a notification. Returns the notification, the shutdown
/// signal, and the server's task.
fn serve(site: &Site, drain: Duration) -> (Arc<Notify>, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let word = Arc::new(Notify::new());
    let (signal, signalled) = oneshot::channel::<()>();
    let wait = Arc::clone(&word);
    let service = tower::service_fn(move |request: http::Request<_>| {
        let wait = Arc::clone(&wait);
        async move {
            if request.uri().path() == "/slow" {
                wait.notified().await;
            }
            Ok::<_, Error>(full("done"))
        }
    });
    let server = Server::new(site.endpoint.clone(), service);
    let serving = tokio::spawn(async move { server.serve_with_shutdown(signalled, drain).await });
    (word, signal, serving)
}

fn is_no_error(error: &Error) -> bool {
    matches!(error, Error::ConnectionLost(ConnectionError::PeerApplication { code, .. }) if Code::from(*code) == Code::NO_ERROR)
}

#[tokio::test]
async fn what_runs_is_finished_and_nothing_new_begins() {
    let site = Site::new();
    let (word, signal, serving) = serve(&site, Duration::from_secs(30));
    let connection = site.connect().await;
    let mut slow = within(connection.request_without_body(site.get("/slow"))).await.unwrap();
    // Once the server has responded to a later request, it has received this one, too.
    let mut quick = within(connection.request_without_body(site.get("/"))).await.unwrap();
    within(quick.response()).await.unwrap();
    signal.send(()).unwrap();
    within(connection.going_away()).await.unwrap();
    let refused = within(connection.request_without_body(site.get("/"))).await.unwrap_err();
    assert!(refused.is_unprocessed(), "{refused:?}");
    assert!(!serving.is_finished());
    word.notify_one();
    within(slow.response()).await.unwrap();
    assert_eq!(within(slow.read_chunk(100)).await.unwrap().unwrap(), "done");
    let end = within(connection.closed()).await;
    assert!(is_no_error(&end), "{end:?}");
    within(serving).await.unwrap();
}

#[tokio::test]
async fn what_takes_longer_than_the_drain_is_cut_off() {
    let site = Site::new();
    let (_word, signal, serving) = serve(&site, Duration::from_millis(200));
    let connection = site.connect().await;
    let mut slow = within(connection.request_without_body(site.get("/slow"))).await.unwrap();
    within(within(connection.request_without_body(site.get("/"))).await.unwrap().response()).await.unwrap();
    let start = Instant::now();
    signal.send(()).unwrap();
    let error = within(slow.response()).await.unwrap_err();
    assert!(is_no_error(&error), "{error:?}");
    assert!(start.elapsed() >= Duration::from_millis(200));
    within(serving).await.unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_hold_a_shutdown_up() {
    let site = Site::new();
    let (_word, signal, serving) = serve(&site, Duration::from_secs(30));
    let client = site.client();
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "done");
    let start = Instant::now();
    signal.send(()).unwrap();
    within(serving).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn closing_the_endpoint_ends_the_server() {
    let site = Site::new();
    let (_word, _signal, serving) = serve(&site, Duration::from_secs(30));
    let connection = site.connect().await;
    within(within(connection.request_without_body(site.get("/"))).await.unwrap().response()).await.unwrap();
    site.endpoint.close(VarInt::from_u32(0), b"");
    within(serving).await.unwrap();
}

/// A service that never accepts a request.
#[derive(Clone)]
struct Full;

impl tower::Service<http::Request<Body>> for Full {
    type Response = http::Response<http_body_util::Empty<bytes::Bytes>>;
    type Error = Error;
    type Future = std::future::Pending<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Pending
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        unreachable!("it is never ready")
    }
}

#[tokio::test]
async fn a_service_without_room_does_not_hold_a_shutdown_up() {
    let site = Site::new();
    let (signal, signalled) = oneshot::channel::<()>();
    let server = Server::new(site.endpoint.clone(), Full);
    let serving =
        tokio::spawn(async move { server.serve_with_shutdown(signalled, Duration::from_millis(100)).await });
    let connection = site.connect().await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    let gone = site.connect().await;
    let _request = within(gone.request_without_body(site.get("/"))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    gone.close();
    signal.send(()).unwrap();
    let error = within(receive.response()).await.unwrap_err();
    assert!(is_no_error(&error), "{error:?}");
    within(serving).await.unwrap();
}

#[tokio::test]
async fn the_last_handle_closes_without_an_error() {
    let site = Site::new();
    let (ours, theirs) = site.pair().await;
    drop(ours);
    assert!(within(theirs.accept()).await.unwrap().is_none());
    let end = within(theirs.closed()).await;
    assert!(is_no_error(&end), "{end:?}");
}

#[tokio::test]
async fn an_unknown_code_closes_without_an_error() {
    let known = Code::INTERNAL_ERROR.get();
    for code in [0, 0x21, 0x3ff, known] {
        let site = Site::new();
        let (ours, theirs) = site.pair().await;
        ours.close_with(VarInt::try_from(code).unwrap().into(), "");
        let ended = within(theirs.accept()).await;
        assert_eq!(ended.is_err(), code == known, "{code:#x}: {ended:?}");
        // The peer's code can be read nevertheless.
        assert_eq!(within(theirs.closed()).await.code().unwrap().get(), code);
    }
}

/// Starts a server that responds to the first request, and closes the connection when the second one arrives. Returns the
/// number of requests so far.
fn close_at_the_second(site: &Site) -> Arc<AtomicUsize> {
    let seen = Arc::new(AtomicUsize::new(0));
    let (count, endpoint) = (Arc::clone(&seen), site.endpoint.clone());
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let connection = anabranch::http3::Connection::new(incoming.await.unwrap(), Default::default());
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                while let Ok(Some((_, mut send, _receive))) = connection.accept().await {
                    match count.fetch_add(1, Ordering::Relaxed) {
                        1 => connection.close(),
                        _ => send.send_whole_response(http::Response::new("done".into())).await.unwrap(),
                    }
                }
            });
        }
    });
    seen
}

/// A request may have been processed if its connection ends without GOAWAY (RFC 9114 §5.4). Only idempotent requests are sent
/// again.
#[tokio::test]
async fn a_post_on_a_lost_connection_is_not_made_again() {
    for post in [true, false] {
        let site = Site::new();
        let seen = close_at_the_second(&site);
        let client = site.client();
        assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "done");
        let second = match post {
            true => within(client.post(&site.url("/"), "buy")).await,
            false => within(client.get(&site.url("/"))).await,
        };
        match second {
            Err(error) => assert!(post && matches!(error, Error::ConnectionLost(_)), "{error:?}"),
            Ok(response) => assert!(!post && text(response).await == "done"),
        }
        assert_eq!(seen.load(Ordering::Relaxed), if post { 2 } else { 3 });
    }
}

/// Starts a server that rejects the first request and responds to all others. Returns the number of requests
/// so far.
fn reject_once(site: &Site) -> Arc<AtomicUsize> {
    let seen = Arc::new(AtomicUsize::new(0));
    let (count, endpoint) = (Arc::clone(&seen), site.endpoint.clone());
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let connection = anabranch::http3::Connection::new(incoming.await.unwrap(), Default::default());
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                while let Ok(Some((_, mut send, mut receive))) = connection.accept().await {
                    if count.fetch_add(1, Ordering::Relaxed) == 0 {
                        receive.stop(Code::REQUEST_REJECTED);
                        send.reset(Code::REQUEST_REJECTED);
                        continue;
                    }
                    let mut body = Vec::new();
                    while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
                        body.extend_from_slice(&chunk);
                    }
                    send.send_whole_response(http::Response::new(body.into())).await.unwrap();
                }
            });
        }
    });
    seen
}

#[tokio::test]
async fn a_rejected_request_is_made_again_with_its_body() {
    let site = Site::new();
    let seen = reject_once(&site);
    let response = within(site.client().post(&site.url("/"), "keep me")).await.unwrap();
    assert_eq!(text(response).await, "keep me");
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_again_is_not() {
    let site = Site::new();
    let seen = reject_once(&site);
    // The body is longer than the client keeps, and longer than flow control allows before the server
    // decides.
    let body = vec![0; 40_000_000];
    let error = within(site.client().post(&site.url("/"), body)).await.unwrap_err();
    assert!(error.is_unprocessed(), "{error:?}");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connection_that_goes_away_is_replaced() {
    let site = Site::new();
    let (_word, signal, serving) = serve(&site, Duration::from_secs(30));
    let client = site.client();
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "done");
    let before = within(client.connection(&site.url("/"))).await.unwrap();
    signal.send(()).unwrap();
    within(serving).await.unwrap();
    let (_word, _signal, _serving) = serve(&site, Duration::from_secs(30));
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "done");
    assert!(before.quic().close_reason().is_some());
}
