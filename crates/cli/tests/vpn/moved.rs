//! A proxy that moves to another address.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::spaces::{PROXY, Spaces, TARGET, eventually, ip};

#[test]
fn rules_follow_a_proxy_that_moves() {
    let Some(spaces) = Spaces::make("rules_follow_a_proxy_that_moves") else { return };
    let before = spaces.situation();
    let listener = spaces.within("t", || TcpListener::bind((TARGET[0], 80)).unwrap());
    spaces.serve_within("t", move || listener.incoming().for_each(drop));
    let reach = || {
        let target = SocketAddr::new(TARGET[0].parse().unwrap(), 80);
        let stream = spaces.within("c", || TcpStream::connect_timeout(&target, Duration::from_secs(5)));
        stream.and_then(|stream| stream.local_addr()).map(|address| address.ip().to_string())
    };
    let mut proxy = spaces.proxy_at("10.71.1.1:4433", &[]);
    let url = format!("https://{PROXY}:4433");
    let args = ["vpn", "connect", &url, "--token-file", "token", "--ca", "cert.pem", "--path", "wifi0"];
    let more = ["--path", "lte0", "--kill-switch", "--timeout", "2", "--idle-ms", "2000"];
    let mut vpn = spaces.connect_as(&[&args[..], &more].concat());
    let (old, new) = ("to 10.71.1.1 lookup main goto", "to 10.71.1.9 lookup main goto");
    let during = spaces.situation();
    assert!(during.contains(old) && !during.contains(new), "{during}");

    proxy.kill();
    spaces.name_proxy("10.71.1.9");
    ip(&format!("-n {} address add 10.71.1.9/24 dev wifi1", spaces.space("s")));
    let _next = spaces.proxy_at("10.71.1.9:4433", &[]);
    eventually(|| match vpn.log().contains("connected to the proxy again") {
        true => Ok(()),
        false => Err(vpn.log()),
    });
    assert_eq!(reach().unwrap(), "10.9.0.2");
    let after = spaces.situation();
    assert!(after.contains(new) && !after.contains(old), "{after}");
    // The next start after a crash begins there, too.
    let state = fs::read_to_string(spaces.path("run").join("vpn.json")).unwrap();
    assert!(state.contains("10.71.1.9:4433") && !state.contains("10.71.1.1"), "{state}");
    assert!(vpn.terminate().success(), "{}", vpn.log());
    assert_eq!(spaces.situation(), before);
    assert!(!spaces.path("run").exists(), "no file is left");
}
