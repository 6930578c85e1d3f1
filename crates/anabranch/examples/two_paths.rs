//! Transfers a file over two paths at once (RFC 10069), prints the events of the paths, abandons one path in the
//! middle, and pins a stream to the other: `cargo run --release --example two_paths`.

use std::net::IpAddr;
use std::sync::Arc;

use anabranch::{
    Endpoint, Error, MultipathConfig, PathId, Route, SelfSigned, TransportConfig, VarInt, config,
};

/// Length of the file in bytes.
const LEN: usize = 50_000_000;
/// Error code APPLICATION_ABANDON_PATH (RFC 10069 §5).
const ABANDON: VarInt = VarInt::from_u32(0x3e);

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Both endpoints must enable multipath.
    let transport = Arc::new(TransportConfig::default().with_multipath(MultipathConfig::default()));
    let identity = SelfSigned::new(["localhost"])?;
    let server_config = identity.server_config(["file"])?.with_transport(Arc::clone(&transport));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let connection = server.accept().await?.await.ok()?;
        let mut file = connection.open_uni().await.ok()?;
        file.write_all(&vec![7; LEN]).await.ok()?;
        file.finish().ok()?;
        let note = connection.accept_uni().await.ok()?.read_to_end(64).await.ok()?;
        println!("note: {}", String::from_utf8_lossy(&note));
        Some(connection.closed().await)
    });

    let client_config = config::client(identity.roots()?, ["file"])?.with_transport(transport);
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    let mut events = connection.path_events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            println!("{event:?}");
        }
    });
    // On Linux, all addresses of 127.0.0.0/8 belong to the loopback interface. `manage_paths` opens a path on
    // each interface of the host.
    let second = connection.open_path(IpAddr::from([127, 0, 0, 2]), None).await?;
    // The note is pinned to the second path: another path carries it only if the second one fails.
    let mut note = connection.open_uni().await?;
    note.set_route(Route::Only(second));
    note.write_all(b"thank you").await?;
    note.finish()?;

    let (mut file, mut received) = (connection.accept_uni().await?, 0);
    while let Some(piece) = file.read_chunk(usize::MAX).await? {
        let before = received;
        received += piece.len();
        if before < LEN / 2 && received >= LEN / 2 {
            connection.abandon_path(PathId::ZERO, ABANDON)?;
        }
    }
    println!("{received} bytes");
    let stats = connection.stats();
    for path in stats.paths.iter().chain(&stats.closed) {
        println!("path {}: {} bytes received from {}", path.id.0, path.bytes_received, path.tuple.remote);
    }
    connection.close(VarInt::ZERO, b"");
    client.wait_close_sent().await;
    Ok(())
}
