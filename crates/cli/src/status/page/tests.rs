use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;

#[test]
fn only_loopback_addresses_are_bound() {
    for other in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0"] {
        let failure = Page::bind(other.parse().unwrap()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains("no loopback address"), "{failure}");
    }
}

#[test]
fn browsers_omit_the_default_port() {
    let (_keep, newest) = watch::channel("{}\n".into());
    let is_for_us = |address: &str, host: &str| {
        let (address, history) = (address.parse().unwrap(), Mutex::default());
        let shared = Shared { address, secret: String::new(), history, newest: newest.clone() };
        shared.is_for_us(&Request::builder().header(HOST, host).body(()).unwrap())
    };
    for host in ["127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80"] {
        assert!(is_for_us("127.0.0.1:80", host), "{host}");
        assert!(!is_for_us("127.0.0.1:81", host), "{host}");
    }
    assert!(is_for_us("[::1]:80", "[::1]") && !is_for_us("[::1]:80", "::1"));
    assert!(!is_for_us("127.0.0.1:80", "evil.example") && !is_for_us("127.0.0.1:80", ""));
}

#[tokio::test]
async fn other_host_names_and_other_secrets_are_refused() {
    let page = Page::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let (address, path) = (page.address, format!("/{}/", page.secret));
    assert_eq!(page.url(), format!("http://{address}{path}"));
    let (_keep, newest) = watch::channel("{\"pid\":7}\n".into());
    let serving = tokio::spawn(page.serve(newest));
    let get = async |path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let own = address.to_string();
    let html = get(&path, &own).await;
    assert!(html.starts_with("HTTP/1.1 200") && html.contains("page.js"), "{html}");
    assert!(html.contains("content-security-policy: default-src 'none'"), "{html}");
    assert!(!html.contains("http://") && !html.contains("https://"), "nothing from elsewhere: {html}");
    let state = get(&format!("{path}state"), &format!("localhost:{}", address.port())).await;
    assert!(state.contains("\"pid\":7"), "{state}");
    assert!(state.ends_with('}') && state.contains("\"history\":["), "{state}");
    for host in ["evil.example", &format!("evil.example:{}", address.port()), "127.0.0.1", ""] {
        assert!(get(&path, host).await.starts_with("HTTP/1.1 421"), "{host}");
    }
    for wrong in ["/", "/state", "/0123/", &path[..path.len() - 2]] {
        assert!(get(wrong, &own).await.starts_with("HTTP/1.1 404"), "{wrong}");
    }
    // Connections that were closed without a request leave room for others.
    let silent: Vec<_> = (0..MAX_BROWSERS).map(|_| TcpStream::connect(address)).collect();
    for stream in silent {
        drop(stream.await.unwrap());
    }
    assert!(get(&path, &own).await.starts_with("HTTP/1.1 200"));
    serving.abort();
}
