//! Streamed bodies, trailers, interim responses, and cancelled requests.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::http3::{Body, Code, Error, Priority};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use tokio::sync::Notify;

use super::support::{Site, full, text, within, written};

#[tokio::test]
async fn the_response_is_read_while_the_request_is_sent() {
    let site = Site::new();
    site.serve(|request| ready(Ok(Response::new(request.into_body()))));
    let (mut sender, body) = written();
    let request = Request::post(site.url("/")).body(body).unwrap();
    let mut response = within(site.client().request(request)).await.unwrap();
    for word in ["one", "two", "three"] {
        sender.send_data(Bytes::from(word)).await.unwrap();
        let echo = within(response.body_mut().read_chunk(100)).await.unwrap();
        assert_eq!(echo.as_deref(), Some(word.as_bytes()));
    }
    drop(sender);
    assert_eq!(within(response.body_mut().read_chunk(100)).await.unwrap(), None);
}

#[tokio::test]
async fn trailers_in_both_directions() {
    let site = Site::new();
    // The service returns the request's trailers as the response's.
    site.serve(|request| ready(Ok(Response::new(request.into_body()))));
    let (mut sender, body) = written();
    let request = Request::post(site.url("/")).body(body).unwrap();
    let response = within(site.client().request(request)).await.unwrap();
    sender.send_data(Bytes::from("body")).await.unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "1234".parse().unwrap());
    sender.send_trailers(trailers.clone()).await.unwrap();
    drop(sender);
    let collected = within(response.into_body().collect()).await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "body");
}

#[tokio::test]
async fn trailers_may_come_without_a_body() {
    let site = Site::new();
    site.serve(|request| async move {
        let collected = request.into_body().collect().await?;
        let checksum = collected.trailers().map(|trailers| trailers["x-checksum"].as_bytes().to_vec());
        Ok(full(checksum.unwrap_or_default()))
    });
    let connection = site.connect().await;
    let (mut send, mut receive) = within(connection.request(site.get("/"))).await.unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "1234".parse().unwrap());
    send.send_trailers(&trailers).unwrap();
    within(receive.response()).await.unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().as_deref(), Some(&b"1234"[..]));
}

#[tokio::test]
async fn a_small_body_with_trailers_keeps_them() {
    let site = Site::new();
    site.serve(|_| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        ready(Ok(Response::new(Full::<Bytes>::from("message").with_trailers(ready(Some(Ok(trailers)))))))
    });
    let response = within(site.client().get(&site.url("/"))).await.unwrap();
    let collected = within(response.into_body().collect()).await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(collected.to_bytes(), "message");
}

#[tokio::test]
async fn lengths_and_ends_are_told_by_the_body() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full(vec![7; 100_000]))));
    let mut response = within(site.client().get(&site.url("/"))).await.unwrap();
    let body = response.body_mut();
    assert_eq!(http_body::Body::size_hint(body).exact(), Some(100_000));
    let mut seen = 0;
    while let Some(n) = within(body.read_with(|bytes| bytes.len().min(1_000))).await.unwrap() {
        seen += n as u64;
        assert_eq!(http_body::Body::size_hint(body).exact(), Some(100_000 - seen));
    }
    assert_eq!(seen, 100_000);
    assert!(http_body::Body::is_end_stream(&Body::default()));
}

#[tokio::test]
async fn a_body_has_a_limit_for_readers() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full(vec![7; 1_001]))));
    let mut response = within(site.client().get(&site.url("/"))).await.unwrap();
    let error = within(response.body_mut().read_to_end(1_000)).await.unwrap_err();
    assert!(matches!(error, Error::TooLong(1_000)), "{error:?}");
}

#[tokio::test]
async fn interim_responses_come_first() {
    let site = Site::new();
    let (ours, theirs) = site.pair().await;
    let server = tokio::spawn(async move {
        let (_, mut send, _receive) = theirs.accept().await.unwrap().unwrap();
        let hints =
            Response::builder().status(103).header("link", "</style.css>; rel=preload").body(()).unwrap();
        send.send_response(hints).unwrap();
        send.send_whole_response(Response::new(Bytes::from("page"))).await.unwrap();
        theirs.closed().await;
    });
    let mut receive = within(ours.request_without_body(site.get("/"))).await.unwrap();
    let interim = within(receive.response()).await.unwrap();
    assert_eq!(interim.status(), StatusCode::EARLY_HINTS);
    assert_eq!(interim.headers()["link"], "</style.css>; rel=preload");
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "page");
    drop((receive, ours));
    within(server).await.unwrap();
}

#[tokio::test]
async fn a_server_that_reads_says_continue() {
    let site = Site::new();
    site.serve(|request| async move { Ok(full(request.into_body().read_to_end(100).await?)) });
    let connection = site.connect().await;
    let request = Request::post(site.url("/")).header("expect", "100-continue").body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::CONTINUE);
    send.write(Bytes::from("content")).await.unwrap();
    send.finish().unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "content");
}

#[tokio::test]
async fn a_request_that_nobody_reads_is_stopped_without_an_error() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full("no, thank you"))));
    let connection = site.connect().await;
    let request = Request::post(site.url("/")).body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    assert!(matches!(within(send.stopped()).await, Error::Stopped(Code::NO_ERROR)));
    assert_eq!(within(receive.response()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "no, thank you");
}

#[tokio::test]
async fn a_server_may_answer_before_it_has_read_a_large_request() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full("too large"))));
    let body = Full::<Bytes>::from(vec![0; 50_000_000]);
    let request = Request::post(site.url("/")).body(body).unwrap();
    assert_eq!(text(within(site.client().request(request)).await.unwrap()).await, "too large");
}

/// If a client drops a response, nothing is left of the request: the service's response body is dropped, and
/// the stream is reset.
#[tokio::test]
async fn dropping_the_response_cancels_the_request() {
    let site = Site::new();
    let dropped = Arc::new(Notify::new());
    let told = Arc::clone(&dropped);
    site.serve(move |_| ready(Ok(Response::new(Endless { given: false, told: Arc::clone(&told) }))));
    let mut response = within(site.client().get(&site.url("/"))).await.unwrap();
    assert_eq!(within(response.body_mut().read_chunk(100)).await.unwrap().unwrap(), "first");
    drop(response);
    within(dropped.notified()).await;
}

/// Body of one piece that never ends. Notifies the test when it is dropped.
struct Endless {
    given: bool,
    told: Arc<Notify>,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match std::mem::replace(&mut self.given, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from("first"))))),
            true => Poll::Pending,
        }
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.told.notify_one();
    }
}

#[tokio::test]
async fn a_client_that_gives_up_tells_the_server() {
    let site = Site::new();
    let (ours, theirs) = site.pair().await;
    let waiting = within(ours.request_without_body(site.get("/"))).await.unwrap();
    let (_, mut send, mut receive) = within(theirs.accept()).await.unwrap().unwrap();
    assert_eq!(within(receive.read_chunk(1)).await.unwrap(), None);
    drop(waiting);
    assert!(matches!(within(send.stopped()).await, Error::Stopped(Code::REQUEST_CANCELLED)));
}

#[tokio::test]
async fn a_body_that_fails_cancels_the_request() {
    let site = Site::new();
    let (ended, mut reason) = tokio::sync::mpsc::unbounded_channel();
    site.serve(move |request| {
        let ended = ended.clone();
        async move {
            ended.send(request.into_body().read_to_end(1_000).await.unwrap_err()).unwrap();
            Ok(full("never"))
        }
    });
    let (sender, body) = written();
    let request = Request::post(site.url("/")).body(body).unwrap();
    let client = site.client();
    let asker = client.clone();
    let asking = tokio::spawn(async move { asker.request(request).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    sender.abort("the disk is gone".into());
    let error = within(asking).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Body(error) if error.to_string() == "the disk is gone"), "{error:?}");
    let seen = within(reason.recv()).await.unwrap();
    assert!(matches!(seen, Error::Reset(Code::REQUEST_CANCELLED)), "{seen:?}");
}

#[tokio::test]
async fn a_response_body_that_fails_resets_the_stream() {
    let site = Site::new();
    site.serve(|_| ready(Ok(Response::new(Broken(false)))));
    // The reset may discard data that was sent before, including the header section.
    let error = match within(site.client().get(&site.url("/"))).await {
        Ok(mut response) => within(response.body_mut().read_to_end(100)).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Reset(Code::INTERNAL_ERROR)), "{error:?}");
}

/// Body that fails after one piece.
struct Broken(bool);

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(match std::mem::replace(&mut self.0, true) {
            false => Ok(Frame::data(Bytes::from("piece"))),
            true => Err(std::io::Error::other("broken")),
        }))
    }
}

#[tokio::test]
async fn a_stream_may_be_reset_with_any_code() {
    let site = Site::new();
    let (ours, theirs) = site.pair().await;
    let mut receive = within(ours.request_without_body(site.get("/"))).await.unwrap();
    let (_, mut send, _receive) = within(theirs.accept()).await.unwrap().unwrap();
    send.reset(Code::VERSION_FALLBACK);
    let error = within(receive.response()).await.unwrap_err();
    assert!(matches!(error, Error::Reset(Code::VERSION_FALLBACK)), "{error:?}");
}

#[tokio::test]
async fn the_more_urgent_response_comes_first() {
    let site = Site::new();
    // Both responses fit into the connection's flow control window, so only congestion control limits them.
    site.serve(|_| ready(Ok(full(vec![7; 600_000]))));
    let connection = site.connect().await;
    let mut finished = Vec::new();
    let mut asked = Vec::new();
    for priority in ["u=7", "u=0"] {
        let request = Request::get(site.url("/")).header("priority", priority).body(()).unwrap();
        asked.push((priority, within(connection.request_without_body(request)).await.unwrap()));
    }
    let (order, mut ends) = tokio::sync::mpsc::unbounded_channel();
    for (priority, mut receive) in asked {
        let order = order.clone();
        tokio::spawn(async move {
            receive.response().await.unwrap();
            while receive.read_with(|bytes| bytes.len()).await.unwrap().is_some() {}
            order.send(priority).unwrap();
        });
    }
    drop(order);
    while let Some(priority) = within(ends.recv()).await {
        finished.push(priority);
    }
    assert_eq!(finished, ["u=0", "u=7"]);
}

#[tokio::test]
async fn a_client_may_change_a_priority() {
    let site = Site::new();
    let dir = std::env::temp_dir().join(format!("anabranch-http3-{}", std::process::id()));
    site.endpoint.set_qlog_dir(Some(dir.clone()));
    site.serve(|request| ready(Ok(Response::new(request.into_body()))));
    let connection = site.connect().await;
    let request = Request::post(site.url("/")).body(()).unwrap();
    let (mut send, mut receive) = within(connection.request(request)).await.unwrap();
    within(receive.response()).await.unwrap();
    send.set_priority(Priority::new(1, true));
    send.write(Bytes::from("hello")).await.unwrap();
    send.finish().unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "hello");
    connection.close();
    within(site.endpoint.wait_idle()).await;
    let trace = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let trace = std::fs::read_to_string(trace).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    // The server's trace has HTTP/3 events beside those of QUIC, including the priority from the client.
    for expected in ["quic:packet_received", "http3:parameters_set", "http3:priority_updated", "u=1, i"] {
        assert!(trace.contains(expected), "no {expected}");
    }
}
