//! TCP connections through a proxy.

use std::io::ErrorKind;

use anabranch::proxy::client::{RefusalKind, TunnelError};
use anabranch_testkit::pattern;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::support::{ENOUGH, Site, target, within};

/// Returns both ends of a TCP connection.
pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (ours, listener.accept().await.unwrap().0)
}

#[tokio::test]
async fn a_tunnel_is_a_stream_with_two_ends() {
    let site = Site::start();
    let proxy = site.proxy();
    let tunnel = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    let (mut read, mut write) = tokio::io::split(tunnel);
    let sent = pattern(3_000_000);
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
        write
    });
    let mut received = Vec::new();
    within(read.read_to_end(&mut received)).await.unwrap();
    assert!(received == expected, "{} bytes", received.len());
    writing.await.unwrap();
}

#[tokio::test]
async fn what_comes_after_a_half_close_arrives() {
    let site = Site::start();
    let proxy = site.proxy();
    let mut tunnel = within(proxy.tcp(&target("late.test:7"))).await.unwrap();
    tunnel.write_all(b"request").await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut response = String::new();
    within(tunnel.read_to_string(&mut response)).await.unwrap();
    assert_eq!(response, "7 bytes");
}

#[tokio::test]
async fn a_pump_moves_bytes_and_ends_both_ways() {
    let site = Site::start();
    let proxy = site.proxy();
    for (name, bytes) in [("echo.test:7", 5_000_000), ("late.test:7", 2_000_000)] {
        let tunnel = within(proxy.tcp(&target(name))).await.unwrap();
        let (program, local) = pair().await;
        let sent = pattern(bytes);
        let pumping = tokio::spawn(tunnel.pump(local, Bytes::copy_from_slice(&sent[..10])));
        let (mut read, mut write) = program.into_split();
        let rest = sent[10..].to_vec();
        let writing = tokio::spawn(async move {
            write.write_all(&rest).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        within(read.read_to_end(&mut received)).await.unwrap();
        match name {
            "echo.test:7" => assert!(received == sent, "{} bytes", received.len()),
            _ => assert_eq!(received, format!("{bytes} bytes").into_bytes()),
        }
        writing.await.unwrap();
        let pumped = within(pumping).await.unwrap();
        assert!(pumped.error.is_none(), "{:?}", pumped.error);
        assert_eq!((pumped.sent, pumped.received), (bytes as u64, received.len() as u64));
    }
}

#[tokio::test]
async fn resets_pass_through_a_pump_in_both_directions() {
    let site = Site::start();
    let proxy = site.proxy();

    let tunnel = within(proxy.tcp(&target("reset.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    program.write_all(b"x").await.unwrap();
    let error = within(program.read_to_end(&mut Vec::new())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(within(pumping).await.unwrap().error.unwrap().kind(), ErrorKind::ConnectionReset);

    // The program resets its connection.
    let tunnel = within(proxy.tcp(&target("echo.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    program.write_all(b"x").await.unwrap();
    assert_eq!(within(program.read_u8()).await.unwrap(), b'x');
    socket2::SockRef::from(&program).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(program);
    assert!(within(pumping).await.unwrap().error.is_some());
}

#[tokio::test]
async fn a_program_can_write_although_the_target_needs_nothing() {
    let site = Site::start();
    let proxy = site.proxy();
    let tunnel = within(proxy.tcp(&target("enough.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    // More than the sockets, the stream and its flow control can hold.
    within(program.write_all(&vec![0; 64_000_000])).await.unwrap();
    ENOUGH.notify_one();
    // The program does not end its direction.
    let mut response = String::new();
    within(program.read_to_string(&mut response)).await.unwrap();
    assert_eq!(response, "enough");
    let error = within(pumping).await.unwrap().error;
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn a_reset_passes_although_the_target_reads_nothing() {
    let site = Site::start();
    let proxy = site.proxy();
    let tunnel = within(proxy.tcp(&target("deaf.test:7"))).await.unwrap();
    let (mut program, local) = pair().await;
    let pumping = tokio::spawn(tunnel.pump(local, Bytes::new()));
    // Write until the windows and the buffers are full.
    let soon = std::time::Duration::from_millis(500);
    while tokio::time::timeout(soon, program.write_all(&[0; 65_536])).await.is_ok() {}
    socket2::SockRef::from(&program).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(program);
    let error = within(pumping).await.unwrap().error.unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_reset_by_the_target_is_a_reset() {
    let site = Site::start();
    let proxy = site.proxy();
    let mut tunnel = within(proxy.tcp(&target("reset.test:7"))).await.unwrap();
    tunnel.write_all(b"x").await.unwrap();
    let error = within(tunnel.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_refusal_has_its_cause() {
    let site = Site::start();
    let error = within(site.proxy().tcp(&target("192.0.2.1:1"))).await.unwrap_err();
    let TunnelError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!((refusal.status.as_u16(), refusal.kind()), (502, RefusalKind::ConnectionRefused));
    assert_eq!(
        error.to_string(),
        "the proxy refused with status 502 Bad Gateway: connection_refused (port 1)"
    );
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::ConnectionRefused);
}
