//! Clients that cost more than they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anabranch::http3::{Body, Code, Error, Limits};
use anabranch::transport::stream::StreamsConfig;
use anabranch::{ConnectionError, TransportConfig, TransportErrorCode};
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::{Semaphore, mpsc};

use super::support::{Site, full, within};

/// Limits that tests need not wait long for.
fn hasty() -> Limits {
    Limits { min_rate: 1_000_000, grace: Duration::from_millis(300), ..Limits::default() }
}

#[tokio::test]
async fn max_handlers_run_at_the_same_time() {
    let site = Site::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let (now, peak, open) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&gate));
    site.serve_within(Limits { max_handlers: 5, ..Limits::default() }, move |_| {
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

/// What a service's reading of the request comes to.
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
    assert!(start.elapsed() >= hasty().grace);
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
    tokio::time::sleep(hasty().grace * 2).await;
    send.write(Bytes::from("still here")).await.unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "still here");
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_cut_off() {
    let site = Site::new();
    site.serve_within(hasty(), |_| async { Ok(full(vec![0; 50_000_000])) });
    let connection = site.connect().await;
    let mut receive = within(connection.request_without_body(site.get("/"))).await.unwrap();
    within(receive.response()).await.unwrap();
    // Nothing is read, so that the server can send no more than the client's window.
    tokio::time::sleep(hasty().grace * 3).await;
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
    let limits = Limits { idle_timeout: Duration::from_millis(200), ..Limits::default() };
    site.serve_within(limits, |_| async { Ok(full("done")) });
    let connection = site.connect().await;
    let start = Instant::now();
    let end = within(connection.closed()).await;
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    let ConnectionError::PeerApplication { code, .. } = connection.quic().close_reason().unwrap() else {
        panic!("{end:?}");
    };
    assert_eq!(Code(code), Code::NO_ERROR);
}

#[tokio::test]
async fn a_connection_whose_requests_are_answered_is_not_idle() {
    let site = Site::new();
    let limits = Limits { idle_timeout: Duration::from_millis(100), ..Limits::default() };
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
    let limits = Limits { header_timeout: Duration::from_millis(200), ..Limits::default() };
    site.serve_within(limits, |_| async { Ok(full("done")) });
    let quic = site.connect_quic().await;
    let (mut send, _receive) = within(quic.open_bi()).await.unwrap();
    // A HEADERS frame of 100 bytes, of which one comes now and then.
    send.write_all(&[0x01, 0x40, 100]).await.unwrap();
    let start = Instant::now();
    let code = loop {
        match send.write(&[0]).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(anabranch::WriteError::Stopped(code)) => break Code(code),
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
    site.serve_within(Limits { max_connections: 2, ..Limits::default() }, |_| async { Ok(full("done")) });
    let (one, _two) = (site.connect().await, site.connect().await);
    let endpoint = anabranch::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
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

/// Rapid reset (CVE-2023-44487): requests that are reset as soon as they are made.
#[tokio::test]
async fn a_client_that_resets_everything_is_sent_away() {
    let streams = StreamsConfig { max_bidi: 100, ..StreamsConfig::default() };
    let site = Site::with_transport(TransportConfig { streams, ..TransportConfig::default() });
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    site.serve_within(Limits { max_handlers: 10, ..Limits::default() }, move |_| {
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
    assert_eq!(Code(code), Code::EXCESSIVE_LOAD);
    assert!(started.load(Ordering::Relaxed) <= 2_000, "{started:?} handlers were started");
}
