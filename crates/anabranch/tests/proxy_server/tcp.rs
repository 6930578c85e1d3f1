//! TCP through the proxy, which passes regular ends and aborts of each side on to the other side.

use std::io::ErrorKind;
use std::time::Duration;

use anabranch::http3::{Code, Error};
use anabranch::proxy::server::{Outcome, UserLimits, Users};
use anabranch::{StreamsConfig, TransportConfig};
use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::support::{Plan, Tunnel, joined, tcp, within};

/// Reads from the target's connection until it is reset. Fails if it ends regularly.
async fn expect_reset(target: &mut tokio::net::TcpStream) {
    let mut rest = Vec::new();
    let error = within(target.read_to_end(&mut rest)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Reads from the tunnel until the direction to the client is reset with H3_CONNECT_ERROR. Fails if it ends
/// regularly.
async fn expect_abort(tunnel: &mut Tunnel) {
    let error = loop {
        match within(tunnel.receive.read_chunk(usize::MAX)).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended in order"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Reset(Code::CONNECT_ERROR)), "{error:?}");
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    tunnel.send.write(Bytes::from("question")).await.unwrap();
    tunnel.send.finish().unwrap();
    let mut question = String::new();
    within(target.read_to_string(&mut question)).await.unwrap();
    assert_eq!(question, "question");
    // The client has ended its direction; the target has not.
    for word in ["long ", "answer"] {
        target.write_all(word.as_bytes()).await.unwrap();
        let mut read = String::new();
        while read.len() < word.len() {
            let piece = within(tunnel.receive.read_chunk(100)).await.unwrap().unwrap();
            read.push_str(std::str::from_utf8(&piece).unwrap());
        }
        assert_eq!(read, word);
    }
    drop(target);
    assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap(), None);
    let record = site.records(1).await.remove(0);
    assert_eq!((record.sent, record.received, record.outcome), (8, 11, Outcome::Complete));
    assert_eq!(record.user.as_deref(), Some("*"));
    assert_eq!(record.address.unwrap().to_string(), record.target.unwrap());
}

#[tokio::test]
async fn a_target_may_end_first() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    target.write_all(b"hello").await.unwrap();
    target.shutdown().await.unwrap();
    assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap().unwrap(), "hello");
    assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap(), None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    tunnel.send.write(Bytes::from("still here")).await.unwrap();
    let mut read = [0; 10];
    within(target.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"still here");
    tunnel.send.finish().unwrap();
    assert_eq!(within(target.read(&mut read)).await.unwrap(), 0);
    assert_eq!(site.records(1).await[0].outcome, Outcome::Complete);
}

#[tokio::test]
async fn a_reset_by_the_client_resets_the_target() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    tunnel.send.reset(Code::REQUEST_CANCELLED);
    expect_reset(&mut target).await;
    expect_abort(&mut tunnel).await;
    assert_eq!(site.records(1).await[0].outcome, Outcome::ByClient);
}

#[tokio::test]
async fn a_client_that_stops_reading_resets_the_target() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    tunnel.receive.stop(Code::REQUEST_CANCELLED);
    expect_reset(&mut target).await;
    let error = within(tunnel.send.stopped()).await;
    assert!(matches!(error, Error::Stopped(Code::CONNECT_ERROR)), "{error:?}");
    assert_eq!(site.records(1).await[0].outcome, Outcome::ByClient);
}

#[tokio::test]
async fn a_connection_that_is_lost_resets_its_targets() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (_one, mut first) = joined(&site, &connection).await;
    let (mut two, mut second) = joined(&site, &connection).await;
    two.send.finish().unwrap();
    let mut nothing = [0];
    assert_eq!(within(second.read(&mut nothing)).await.unwrap(), 0);
    connection.close();
    expect_reset(&mut first).await;
    // The second target has read the end of the direction to it already, so only a write reports the reset.
    let write = async {
        loop {
            if let Err(error) = second.write_all(b"x").await {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!([ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&within(write).await.kind()));
    let outcomes: Vec<_> = site.records(2).await.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::ByClient; 2]);
}

#[tokio::test]
async fn a_reset_by_the_target_resets_both_directions() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    // Neither side, the client, or the target has ended its direction before the reset.
    for ended in ["", "client", "target"] {
        let (mut tunnel, mut target) = joined(&site, &connection).await;
        let mut nothing = [0];
        match ended {
            "client" => {
                tunnel.send.finish().unwrap();
                assert_eq!(within(target.read(&mut nothing)).await.unwrap(), 0);
            }
            "target" => {
                target.shutdown().await.unwrap();
                assert_eq!(within(tunnel.receive.read_chunk(100)).await.unwrap(), None);
            }
            _ => {}
        }
        target.set_zero_linger().unwrap();
        drop(target);
        if ended != "target" {
            expect_abort(&mut tunnel).await;
        }
        if ended != "client" {
            let error = within(tunnel.send.stopped()).await;
            assert!(matches!(error, Error::Stopped(Code::CONNECT_ERROR)), "{ended}: {error:?}");
        }
    }
    let outcomes: Vec<_> = site.records(3).await.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::ByTarget; 3]);
}

#[tokio::test]
async fn a_reset_reaches_a_client_that_does_not_read() {
    let site = Plan::open().serve();
    let small = StreamsConfig::default().with_stream_window(10_000).with_stream_window_max(10_000);
    let connection = site.connect_with(TransportConfig::default().with_streams(small)).await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    let filled = async {
        loop {
            let written =
                tokio::time::timeout(Duration::from_millis(300), target.write_all(&[0; 65_536])).await;
            if written.is_err() {
                return;
            }
        }
    };
    within(filled).await;
    target.set_zero_linger().unwrap();
    drop(target);
    let error = within(tunnel.send.stopped()).await;
    assert!(matches!(error, Error::Stopped(Code::CONNECT_ERROR)), "{error:?}");
    expect_abort(&mut tunnel).await;
}

#[tokio::test]
async fn a_client_that_has_ended_from_the_start_is_told_of_a_reset() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request = Request::connect(listener.local_addr().unwrap().to_string()).body(()).unwrap();
    let mut receive = within(connection.request_without_body(request)).await.unwrap();
    let (mut target, _) = within(listener.accept()).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 200);
    let mut nothing = [0];
    assert_eq!(within(target.read(&mut nothing)).await.unwrap(), 0);
    target.write_all(b"x").await.unwrap();
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "x");
    target.set_zero_linger().unwrap();
    drop(target);
    let error = within(receive.read_chunk(100)).await.unwrap_err();
    assert!(matches!(error, Error::Reset(Code::CONNECT_ERROR)), "{error:?}");
}

#[tokio::test]
async fn both_directions_carry_much_at_once() {
    const SIZE: usize = 8 << 20;
    let site = Plan::open().serve();
    let connection = site.connect().await;
    let (mut tunnel, target) = joined(&site, &connection).await;
    let content: Bytes = (0..SIZE).map(|n| ((n * 31) >> 8) as u8).collect();
    let (mut reader, mut writer) = target.into_split();
    let echo = async {
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        drop(writer);
    };
    let upload = async {
        for piece in content.chunks(50_000) {
            tunnel.send.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        tunnel.send.finish().unwrap();
    };
    let download = async {
        let mut read = Vec::with_capacity(SIZE);
        while let Some(piece) = tunnel.receive.read_chunk(usize::MAX).await.unwrap() {
            read.extend_from_slice(&piece);
        }
        read
    };
    let (read, (), ()) = within(async { tokio::join!(download, upload, echo) }).await;
    assert!(read == content, "{} of {SIZE} bytes", read.len());
}

#[tokio::test]
async fn a_rate_slows_both_directions_together() {
    let users = Users::new().with_anyone(UserLimits::default().with_rate(1_000_000));
    let site = Plan { users, ..Plan::open() }.serve();
    let connection = site.connect().await;
    let (mut tunnel, mut target) = joined(&site, &connection).await;
    let begin = Instant::now();
    let write = async { target.write_all(&[0; 500_000]).await.unwrap() };
    let read = async {
        let mut read = 0;
        while read < 500_000 {
            read += tunnel.receive.read_chunk(usize::MAX).await.unwrap().unwrap().len();
        }
    };
    within(async { tokio::join!(write, read) }).await;
    // At 1 MB/s that takes 500 ms, less the burst and the delay after the last piece.
    assert!(begin.elapsed() >= Duration::from_millis(250), "{:?}", begin.elapsed());
    assert_eq!(site.proxy.totals()["*"].received, 500_000);
    assert_eq!(site.proxy.totals()["*"].flows, 1);
}

#[tokio::test]
async fn targets_have_several_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut plan = Plan::open();
    // No socket listens at the first address.
    plan.names
        .0
        .insert("two.example".to_owned(), ["127.0.0.9", "127.0.0.1"].map(|a| a.parse().unwrap()).to_vec());
    let site = plan.serve();
    let connection = site.connect().await;
    let tunnel = tcp(&connection, &format!("two.example:{port}"), &[]).await;
    assert_eq!(tunnel.response.status(), 200);
    let (target, _) = within(listener.accept()).await.unwrap();
    drop((tunnel, target));
    let record = site.records(1).await.remove(0);
    assert_eq!(record.address.unwrap().to_string(), format!("127.0.0.1:{port}"));
    assert_eq!(record.target.unwrap(), format!("two.example:{port}"));
}

#[tokio::test]
async fn a_client_that_gives_up_before_the_target_answers_is_recorded() {
    let site = Plan::open().serve();
    let connection = site.connect().await;
    // A socket whose queue is full drops further attempts, like a host that does not answer.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 4], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let silent = full.local_addr().unwrap().as_socket().unwrap();
    let _fill = std::net::TcpStream::connect(silent).unwrap();
    let request = Request::connect(silent.to_string()).body(()).unwrap();
    let halves = within(connection.request(request)).await.unwrap();
    while site.proxy.totals().get("*").is_none_or(|user| user.flows == 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(halves);
    let record = site.records(1).await.remove(0);
    assert_eq!((record.outcome, record.address), (Outcome::ByClient, None));
    assert_eq!(site.proxy.totals()["*"].flows, 0);
}
