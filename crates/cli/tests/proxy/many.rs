//! Memory of the server with many tunnels that are idle, or whose clients read nothing.

use std::time::Duration;

use anabranch::{StreamsConfig, TransportConfig};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::site::{Site, TOKEN, connect, within};

/// Number of tunnels.
const MANY: usize = 1_000;

/// Returns the resident memory of the server, in bytes.
fn memory(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_thousand_slow_clients_hold_bounded_memory() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let site = Site::open(&["--log", "none"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    // Clients that let the proxy send 16 kB on each stream, and read none of it.
    let streams = StreamsConfig::default().with_stream_window(16_384).with_stream_window_max(16_384);
    let connection = site.http3(TransportConfig::default().with_streams(streams)).await;
    let first = connect(&connection, &target, TOKEN).await;
    let _accepted = within(listener.accept()).await.unwrap();
    let before = memory(&site);

    let (mut tunnels, mut targets) = (vec![first], Vec::new());
    for _ in 0..MANY {
        let (tunnel, accepted) =
            within(async { tokio::join!(connect(&connection, &target, TOKEN), listener.accept()) }).await;
        assert_eq!(tunnel.2, 200);
        tunnels.push(tunnel);
        targets.push(accepted.unwrap().0);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = memory(&site).saturating_sub(before);
    assert!(idle < (MANY as u64) * 16 * 1024, "{} bytes for each idle tunnel", idle / MANY as u64);

    // Every target sends as much as it can, and half of the clients have ended their own direction.
    for (tunnel, _, _) in tunnels.iter_mut().step_by(2) {
        tunnel.finish().unwrap();
    }
    let piece = [0; 65_536];
    for accepted in &mut targets {
        while tokio::time::timeout(Duration::from_millis(2), accepted.write_all(&piece)).await.is_ok() {}
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let busy = memory(&site).saturating_sub(before);
    assert!(busy < (MANY as u64) * 128 * 1024, "{} bytes for each slow tunnel", busy / MANY as u64);
    println!("idle {} bytes, slow {} bytes for each tunnel", idle / MANY as u64, busy / MANY as u64);

    // Other clients are still served.
    let other = site.http3(TransportConfig::default()).await;
    assert_eq!(connect(&other, &target, TOKEN).await.2, 200);
    drop(tunnels);
    connection.close();
}
