//! Tunnels over every version of HTTP.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use super::site::{Site, TOKEN, connect, within};

/// Sends a request over HTTP/1.1 or HTTP/2, on a connection of its own.
async fn send(site: &Site, alpn: &str, request: Request<Empty<Bytes>>) -> Response<Incoming> {
    let stream = TokioIo::new(site.tls(alpn).await);
    if alpn == "h2" {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        // An extended CONNECT needs the server's SETTINGS first.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        within(sender.send_request(request)).await.unwrap()
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        within(sender.send_request(request)).await.unwrap()
    }
}

/// Checks that bytes and the end of each direction pass.
async fn converse(client: impl AsyncRead + AsyncWrite + Unpin, listener: &TcpListener) {
    let mut client = client;
    let (mut target, _) = within(listener.accept()).await.unwrap();
    client.write_all(b"question").await.unwrap();
    client.flush().await.unwrap();
    let mut question = [0; 8];
    within(target.read_exact(&mut question)).await.unwrap();
    assert_eq!(&question, b"question");
    target.write_all(b"answer").await.unwrap();
    target.shutdown().await.unwrap();
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"answer");
    client.write_all(b"and").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    within(target.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"and");
}

#[tokio::test]
async fn connect_works_over_tcp_too() {
    let site = Site::open(&[]);
    for alpn in ["http/1.1", "h2"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let request = |token: &str| {
            let request =
                Request::connect(&target).header("host", &target).header("proxy-authorization", token);
            request.body(Empty::new()).unwrap()
        };
        let refused = send(&site, alpn, request("Bearer alice.coffee")).await;
        assert_eq!(refused.status(), 407, "{alpn}");
        assert!(refused.headers().contains_key("proxy-authenticate"), "{alpn}");
        let response = send(&site, alpn, request(TOKEN)).await;
        assert_eq!(response.status(), 200, "{alpn}");
        let upgraded = within(hyper::upgrade::on(response)).await.unwrap();
        converse(TokioIo::new(upgraded), &listener).await;
        let log = site.log_with(&format!(" alice {alpn} tcp {target} {target} 11 6 "));
        assert!(log.contains(&format!(" {alpn} tcp {target} - 0 0 ")), "{log}");
    }
}

#[tokio::test]
async fn connect_works_over_http3() {
    let site = Site::open(&["--log", "json"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let connection = site.http3(anabranch::TransportConfig::default()).await;
    let (mut send, mut receive, status) = connect(&connection, &target, TOKEN).await;
    assert_eq!(status, 200);
    let (mut accepted, _) = within(listener.accept()).await.unwrap();
    send.write(Bytes::from("question")).await.unwrap();
    send.finish().unwrap();
    let mut question = String::new();
    within(accepted.read_to_string(&mut question)).await.unwrap();
    assert_eq!(question, "question");
    accepted.write_all(b"answer").await.unwrap();
    drop(accepted);
    assert_eq!(within(receive.read_chunk(100)).await.unwrap().unwrap(), "answer");
    assert_eq!(within(receive.read_chunk(100)).await.unwrap(), None);
    let log = site.log_with("complete");
    let entry: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    for (key, value) in [("user", "alice"), ("protocol", "h3"), ("carried", "tcp"), ("target", &target)] {
        assert_eq!(entry[key], value, "{log}");
    }
    assert_eq!((&entry["sent"], &entry["received"]), (&8.into(), &6.into()));
    assert!(!log.contains("tea") && !log.contains("question"), "{log}");
}

#[tokio::test]
async fn udp_works_over_tcp_in_capsules() {
    let site = Site::open(&[]);
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = target.local_addr().unwrap().port();
    let path = format!("/.well-known/masque/udp/127.0.0.1/{port}/");
    for alpn in ["http/1.1", "h2"] {
        let request = match alpn {
            "h2" => Request::connect(format!("https://localhost:{}{path}", site.address.port()))
                .extension(Protocol::from_static("connect-udp")),
            _ => Request::get(&path)
                .header("host", "localhost")
                .header("connection", "upgrade")
                .header("upgrade", "connect-udp"),
        };
        let request = request.header("capsule-protocol", "?1").header("proxy-authorization", TOKEN);
        let response = send(&site, alpn, request.body(Empty::new()).unwrap()).await;
        assert_eq!(response.status(), if alpn == "h2" { 200 } else { 101 }, "{alpn}");
        assert_eq!(response.headers()["capsule-protocol"], "?1", "{alpn}");
        let mut stream = TokioIo::new(within(hyper::upgrade::on(response)).await.unwrap());
        stream.write_all(b"\0\x05\0ping").await.unwrap();
        stream.flush().await.unwrap();
        let mut buffer = [0; 100];
        let (len, proxy) = within(target.recv_from(&mut buffer)).await.unwrap();
        assert_eq!(&buffer[..len], b"ping", "{alpn}");
        target.send_to(b"pong!", proxy).await.unwrap();
        let mut capsule = [0; 8];
        within(stream.read_exact(&mut capsule)).await.unwrap();
        assert_eq!(&capsule, b"\0\x06\0pong!", "{alpn}");
    }
}

#[tokio::test]
async fn tunnels_for_ip_packets_are_known_over_tcp_too() {
    let site = Site::open(&[]);
    let path = "/.well-known/masque/ip/*/*/";
    for alpn in ["http/1.1", "h2"] {
        let request = match alpn {
            "h2" => Request::connect(format!("https://localhost:{}{path}", site.address.port()))
                .extension(Protocol::from_static("connect-ip")),
            _ => Request::get(path)
                .header("host", "localhost")
                .header("connection", "upgrade")
                .header("upgrade", "connect-ip"),
        };
        let request = request.header("capsule-protocol", "?1").header("proxy-authorization", TOKEN);
        let response = send(&site, alpn, request.body(Empty::new()).unwrap()).await;
        // The proxy has no network for them.
        assert_eq!(response.status(), 501, "{alpn}");
    }
}
