//! Clients that exceed the server's limits.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use anabranch::http3::{Body, Code, Config, Connection, Error, Limits, RecvHalf};
use anabranch::{ConnectionError, Endpoint, StreamsConfig, TransportConfig, TransportErrorCode};
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::{Semaphore, mpsc};

use super::support::{Site, full, within};

/// Limits with short times, for tests.
fn hasty() -> Limits {
    let soon = Duration::from_millis(300);
    Limits::default().with_min_rate(1_000_000).with_grace(soon).with_stall_timeout(soon)
}

#[tokio::test]
async fn max_handlers_run_at_the_same_time() {
    let site = Site::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let (now, peak, open) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&gate));
    site.serve_within(Limits::default().with_max_handlers(5), move |_| {
        let (now, peak, open) = (Arc::clone(&now), Arc::clone(&peak), Arc::clone(&open));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            open.acquire().await.unwrap().forget();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(full("done"))
        }
    });
    let connection = site.connect().await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(within(connection.request_without_body(site.get("/"))).await.unwrap());
    }
    while running.load(Ordering::SeqCst) < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.add_permits(40);
    for receive in &mut waiting {
        assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    }
    assert_eq!(most.load(Ordering::SeqCst), 5);
}

/// Starts a service that reads the request's body, and returns the receiver of the results.
fn serve_reader(site: &Site, limits: Limits) -> mpsc::UnboundedReceiver<Result<Bytes, Error>> {
    let (results, receiver) = mpsc::unbounded_channel();
    site.serve_within(limits, move |request: Request<Body>| {
        let results = results.clone();
        async move {
            results.send(request.into_body().read_to_end(1 << 20).await).unwrap();
            Ok(full("read"))
        }
    });
    receiver
}

#[tokio::test]
async fn a_client_that_sends_too_slowly_is_cut_off() {
    let site = Site::new();
    let mut results = serve_reader(&site, hasty());
    let connection = site.connect().await;
    let start = Instant::now();
    let request = Request::post(site.url("/")).body(()).unwrap();
    let (mut send, _receive) = within(connection.request(request)).await.unwrap();
    let mut sent = Ok(());
    while sent.is_ok() {
        sent = send.write(Bytes::from("x")).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = within(results.recv()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TooSlow), "{error:?}");
    assert!(start.elapsed() >= hasty().grace());
    assert!(matches!(sent, Err(Error::Stopped(Code::EXCESSIVE_LOAD))), "{sent:?}");
}

#[tokio::test]
async fn a_conversation_may_pause() {
    let site = Site::new();
    site.serve_within(hasty(), |request| async move { Ok(Response::new(request.into_body())) });
    let connection = site.connect().await;
    let request = Request::post(site.url("/")).body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    tokio::time::sleep(hasty().grace() * 2).await;
    send.write(Bytes::from("still here")).await.unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "still here");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let site = Site::new();
    site.serve_within(hasty(), |_| async { Ok(full(vec![0; 50_000_000])) });
    let connection = site.connect().await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    within(receive.response()).await.unwrap();
    // The client reads nothing, so the server can send no more than the client's window.
    tokio::time::sleep(hasty().grace() * 3).await;
    let error = loop {
        match within(receive.read_chunk(usize::MAX)).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all of it was sent"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Reset(Code::EXCESSIVE_LOAD)), "{error:?}");
}

#[tokio::test]
async fn a_connection_without_requests_ends() {
    let site = Site::new();
    let limits = Limits::default().with_idle_timeout(Duration::from_millis(200));
    site.serve_within(limits, |_| async { Ok(full("done")) });
    let connection = site.connect().await;
    let start = Instant::now();
    let end = within(connection.closed()).await;
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    let ConnectionError::PeerApplication { code, .. } = connection.quic().close_reason().unwrap() else {
        panic!("{end:?}");
    };
    assert_eq!(Code::from(code), Code::NO_ERROR);
}

#[tokio::test]
async fn a_connection_whose_requests_are_answered_is_not_idle() {
    let site = Site::new();
    let limits = Limits::default().with_idle_timeout(Duration::from_millis(100));
    site.serve_within(limits, |_| async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(full("done"))
    });
    let connection = site.connect().await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let site = Site::new();
    // The header section arrives at a twentieth of `min_rate`, so all of its delay counts towards the
    // timeout.
    let limits = Limits::default().with_header_timeout(Duration::from_millis(200)).with_min_rate(2_000);
    site.serve_within(limits, |_| async { Ok(full("done")) });
    let quic = site.connect_quic().await;
    let (mut send, _receive) = within(quic.open_bi()).await.unwrap();
    // A HEADERS frame of 100 bytes, sent one byte at a time.
    send.write_all(&[0x01, 0x40, 100]).await.unwrap();
    let start = Instant::now();
    let code = loop {
        match send.write(&[0]).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(anabranch::WriteError::Stopped(code)) => break Code::from(code),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(code, Code::REQUEST_REJECTED);
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    assert!(quic.close_reason().is_none());
}

#[tokio::test]
async fn max_connections_at_the_same_time() {
    let site = Site::new();
    site.serve_within(Limits::default().with_max_connections(2), |_| async { Ok(full("done")) });
    let (one, _two) = (site.connect().await, site.connect().await);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let refused = || async {
        let connecting = endpoint.connect_with(&site.client_config(), site.address, "localhost").unwrap();
        within(connecting).await
    };
    match refused().await {
        Err(ConnectionError::PeerTransport(error)) => {
            assert_eq!(error.code, TransportErrorCode::CONNECTION_REFUSED);
        }
        other => panic!("{other:?}"),
    }
    one.close();
    drop(one);
    let start = Instant::now();
    while refused().await.is_err() {
        assert!(start.elapsed() < super::support::PATIENCE, "the place was not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Rapid reset (CVE-2023-44487): requests that are reset immediately.
#[tokio::test]
async fn a_client_that_resets_everything_is_sent_away() {
    let streams = StreamsConfig::default().with_max_bidi(100);
    let site = Site::with_transport(TransportConfig::default().with_streams(streams));
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    site.serve_within(Limits::default().with_max_handlers(10), move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(full("never"))
        }
    });
    let connection = site.connect().await;
    let mut made = 0;
    let end = loop {
        match within(connection.request_without_body(site.get("/"))).await {
            Ok(receive) => drop(receive),
            Err(error) => break error,
        }
        made += 1;
        assert!(made < 100_000, "nobody minds");
    };
    let ConnectionError::PeerApplication { code, .. } = connection.quic().close_reason().unwrap() else {
        panic!("{end:?}");
    };
    assert_eq!(Code::from(code), Code::EXCESSIVE_LOAD);
    assert!(started.load(Ordering::Relaxed) <= 2_000, "{started:?} handlers were started");
}

/// Returns a client whose connection has a window of 64 KiB for all streams. A client that reads slowly then
/// resembles a client on a slow link: the server chooses which stream's data fills the window.
async fn narrow(site: &Site) -> Connection {
    let streams =
        StreamsConfig::default().with_connection_window(64 << 10).with_connection_window_max(64 << 10);
    let config = site.client_config().with_transport(TransportConfig::default().with_streams(streams));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(&config, site.address, "localhost").unwrap();
    Connection::new(within(connecting).await.unwrap(), Config::default())
}

/// Reads both responses at a low rate, as their data arrives. Returns how many bytes of the second one had
/// arrived when the first one was complete.
async fn read_slowly(responses: &mut [RecvHalf; 2], lens: [usize; 2]) -> usize {
    let mut read = [0; 2];
    let mut before = None;
    while read != lens {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for index in 0..2 {
            if read[index] == lens[index] {
                continue;
            }
            let piece = poll_fn(|cx| match responses[index].poll_read_chunk(cx, 16 << 10) {
                Poll::Pending => Poll::Ready(Ok(Some(Bytes::new()))),
                ready => ready,
            });
            read[index] += piece.await.expect("it goes on").expect("it is not over").len();
        }
        if read[0] == lens[0] {
            before.get_or_insert(read[1]);
        }
    }
    before.unwrap_or(lens[1])
}

/// Time in which the server serves another stream does not count against the client, whatever its priorities.
/// Chromium sends `u=0, i` for documents, `i` for fetches, `u=1` for scripts.
#[tokio::test]
async fn downloads_that_share_a_connection_all_come() {
    const LENS: [usize; 2] = [8_000_000, 800_000];
    let site = Site::new();
    site.serve_within(hasty(), |request| async move {
        Ok(full(vec![0; if request.uri().path() == "/big" { LENS[0] } else { LENS[1] }]))
    });
    for (priorities, least) in [
        ([None, None], LENS[1]),
        ([Some("u=0, i"), Some("u=0, i")], LENS[1]),
        ([Some("i"), Some("i")], LENS[1]),
        // The responses are sent one after the other, but the second one does not starve.
        ([Some("u=1"), Some("u=1")], LENS[1] / 10),
        ([Some("u=0, i"), Some("u=1")], 0),
    ] {
        let connection = narrow(&site).await;
        let begin = async |path, priority: Option<&str>| {
            let mut request = Request::get(site.url(path));
            if let Some(priority) = priority {
                request = request.header("priority", priority);
            }
            let request = connection.request_without_body(request.body(()).unwrap());
            within(request).await.unwrap()
        };
        let mut responses = [begin("/big", priorities[0]).await, begin("/mid", priorities[1]).await];
        let start = Instant::now();
        for response in &mut responses {
            assert_eq!(within(response.response()).await.unwrap().status(), 200);
        }
        let before = read_slowly(&mut responses, LENS).await;
        assert!(before >= least, "{priorities:?}: {before} bytes before the other was over");
        assert!(start.elapsed() > hasty().stall_timeout(), "the link is not slow enough for this test");
    }
}

/// If a client sends its uploads one after the other, the server does not count an upload as slow while an
/// earlier one is still arriving.
#[tokio::test]
async fn uploads_that_share_a_connection_all_arrive() {
    let site = Site::new();
    let grace = Duration::from_secs(1);
    // The stall timeout is longer than a busy machine makes the client pause.
    let limits = Limits::default().with_min_rate(1_000).with_grace(grace).with_stall_timeout(grace * 20);
    let mut results = serve_reader(&site, limits.clone());
    let connection = site.connect().await;
    let post = || connection.request(Request::post(site.url("/")).body(()).unwrap());
    let (mut first, _receive_first) = within(post()).await.unwrap();
    let (mut second, _receive_second) = within(post()).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < limits.grace() * 3 {
        first.write(Bytes::from(vec![0; 1_000])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.finish().unwrap();
    second.write(Bytes::from("at last")).await.unwrap();
    second.finish().unwrap();
    for _ in 0..2 {
        within(results.recv()).await.unwrap().unwrap();
    }
}

/// The server waits for a header section that is delayed by other data on a slow link.
#[tokio::test]
async fn a_head_behind_other_data_is_waited_for() {
    let site = Site::new();
    let limits = Limits::default().with_header_timeout(Duration::from_millis(200)).with_min_rate(10_000);
    let _results = serve_reader(&site, limits.clone());
    let quic = site.connect_quic().await;
    let connection = Connection::new(quic.clone(), Config::default());
    let (mut upload, _receive) =
        within(connection.request(Request::post(site.url("/")).body(()).unwrap())).await.unwrap();
    let (mut send, _receive) = within(quic.open_bi()).await.unwrap();
    send.write_all(&[0x01, 0x40, 100]).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < limits.header_timeout() * 5 {
        upload.write(Bytes::from(vec![0; 2_000])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(send.write(&[0]).await.unwrap(), 1, "the stream was not stopped");
}

/// Requests beyond `max_handlers` wait for earlier ones, even if the client does not read the earlier
/// responses for long.
#[tokio::test]
async fn who_waits_for_a_handler_is_not_to_blame() {
    let site = Site::new();
    let limits = hasty().with_max_handlers(1).with_stall_timeout(Duration::ZERO);
    let limits = limits.with_header_timeout(Duration::from_millis(200));
    site.serve_within(limits, |_| async { Ok(full(vec![0; 5_000_000])) });
    let connection = site.connect().await;
    let mut first = within(connection.request_without_body(site.get("/"))).await.unwrap();
    assert_eq!(within(first.response()).await.unwrap().status(), 200);
    let mut second = within(connection.request_without_body(site.get("/"))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for response in [&mut first, &mut second] {
        let mut len = 0;
        while let Some(piece) = within(response.read_chunk(usize::MAX)).await.unwrap() {
            // `read_chunk` skips the header section of the second response.
            len += piece.len();
        }
        assert_eq!(len, 5_000_000);
    }
}

/// If a connection is closed because it was idle, the client can still read data that has arrived.
#[tokio::test]
async fn what_has_arrived_can_be_read_after_an_idle_connection_was_closed() {
    let site = Site::new();
    let limits = Limits::default().with_idle_timeout(Duration::from_millis(200));
    site.serve_within(limits, |_| async { Ok(full(vec![0; 300_000])) });
    let connection = site.connect().await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    within(connection.closed()).await;
    let mut len = 0;
    while let Some(piece) = within(receive.read_chunk(10_000)).await.unwrap() {
        len += piece.len();
    }
    assert_eq!(len, 300_000);
}

/// `idle_timeout` applies to connections without activity. A response that is read slowly counts as activity.
#[tokio::test]
async fn a_connection_whose_response_is_read_slowly_is_not_idle() {
    let site = Site::new();
    let limits = Limits::default().with_idle_timeout(Duration::from_millis(200));
    site.serve_within(limits, |_| async { Ok(full(vec![0; 3_000_000])) });
    let connection = narrow(&site).await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    let mut len = 0;
    while let Some(piece) = within(receive.read_chunk(10_000)).await.unwrap() {
        len += piece.len();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(len, 3_000_000);
}
