//! Restricts each of two streams of one connection to its own path, over the loopback interface: `cargo run
//! --example pinned`.

use anabranch::{
    Connection, Endpoint, Error, MultipathConfig, Route, SelfSigned, TransportConfig, VarInt, config,
};
use std::net::IpAddr;
use std::sync::Arc;

const LEN: usize = 1_000_000;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let transport = Arc::new(TransportConfig::default().with_multipath(MultipathConfig::default()));
    let identity = SelfSigned::new(["localhost"])?;
    let server_config = identity.server_config(["pinned"])?.with_transport(Arc::clone(&transport));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let connection = server.accept().await?.await.ok()?;
        while let Ok(mut stream) = connection.accept_uni().await {
            tokio::spawn(async move { stream.read_to_end(LEN).await.map(|all| all.len()) });
        }
        Some(())
    });

    let client_config = config::client(identity.roots()?, ["pinned"])?.with_transport(transport);
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    let first = connection.paths()[0].id;
    let second = connection.open_path(IpAddr::from([127, 0, 0, 2]), None).await?;
    for path in [first, second] {
        let mut stream = connection.open_uni().await?;
        // The restriction applies while the path works. If it fails, another path carries the stream.
        stream.set_route(Route::Only(path));
        stream.write_all(&vec![0; LEN]).await?;
        stream.finish()?;
        stream.stopped().await?;
        report(&connection, path.0);
    }
    connection.close(VarInt::from_u32(0), b"");
    client.wait_idle().await;
    Ok(())
}

fn report(connection: &Connection, pinned: u32) {
    for path in connection.paths() {
        println!("a megabyte for path {pinned}: path {} has sent {} bytes", path.id.0, path.bytes_sent);
    }
}
