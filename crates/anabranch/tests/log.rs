//! Events that are reported to `tracing`. For all threads of a process together, `tracing` caches whether any
//! subscriber has enabled an event. The cache may be wrong for an event that occurs for the first time while
//! a subscriber is installed or removed. This file therefore is a separate process with a single test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use anabranch::{Endpoint, MultipathConfig, SelfSigned, TransportConfig, VarInt, config};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Output of a subscriber.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs a connection with two paths from its first packet to its end, all on this thread, and returns the
/// logged lines.
fn told(filter: &str) -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(lines.clone())
        .without_time()
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(play()));
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

async fn play() {
    let multipath = Some(MultipathConfig::default());
    let transport = Arc::new(TransportConfig::default().with_multipath(multipath));
    let identity = SelfSigned::new(["localhost"]).unwrap();
    let server_config = identity.server_config(["test"]).unwrap().with_transport(Arc::clone(&transport));
    let loopback = || "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let address = server.local_addr().unwrap();
    let serving = tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
    let client_config =
        config::client(identity.roots().unwrap(), ["test"]).unwrap().with_transport(transport);
    let mut client = Endpoint::client(loopback()).unwrap();
    client.set_default_client_config(client_config);
    let connection = client.connect(address, "localhost").unwrap().await.unwrap();
    let second = connection.open_path(std::net::IpAddr::from([127, 0, 0, 1]), None).await.unwrap();
    connection.abandon_path(second, VarInt::from_u32(0x3e)).unwrap();
    connection.close(VarInt::from_u32(7), b"enough");
    serving.await.unwrap();
}

/// Tests all filters one after the other, because this file must contain a single test.
#[test]
fn connections_and_paths_are_told_in_their_spans() {
    assert_eq!(told("off"), [""; 0]);
    let lines = told("anabranch=info");
    let has = |level: &str, side: &str, path: Option<u32>, what: &str| {
        lines.iter().any(|line| {
            let span = path.map_or("}: ".to_owned(), |id| format!("}}:path{{id={id} local=127.0.0.1:"));
            line.starts_with(level)
                && line.contains("connection{id=")
                && line.contains(&format!("side=\"{side}\" peer=127.0.0.1:"))
                && line.contains(&span)
                && line.contains(what)
        })
    };
    for side in ["client", "server"] {
        assert!(has("INFO", side, None, "anabranch::connection: established version="), "{lines:#?}");
        assert!(has("INFO", side, None, "anabranch::connection: ended reason="), "{lines:#?}");
        assert!(has("INFO", side, Some(0), "anabranch::path: in use"), "{lines:#?}");
        assert!(has("INFO", side, Some(1), "anabranch::path: validated"), "{lines:#?}");
    }
    assert!(has("INFO", "client", Some(1), "anabranch::path: opening"), "{lines:#?}");
    assert!(has("INFO", "client", Some(1), "closed code=62 reason="), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.starts_with("DEBUG")), "{lines:#?}");
    // Both endpoints use the same name for the connection.
    let ids: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|line| line.split("connection{id=").nth(1)?.split(' ').next()).collect();
    assert_eq!(ids.len(), 1, "{lines:#?}");

    let lines = told("anabranch::path=info");
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("anabranch::path: ")), "{lines:#?}");
    let lines = told("anabranch::packet=trace");
    let is_packet = |line: &String| line.contains("anabranch::packet: sent kind=") && line.contains("bytes=");
    assert!(lines.iter().any(is_packet), "{lines:#?}");
    let lines = told("anabranch=debug");
    for what in ["handshake data", "transport parameters", "keys installed", "a client", "begins"] {
        assert!(lines.iter().any(|line| line.contains(what)), "{what}: {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("TRACE")), "{lines:#?}");
}
