//! Unreliable messages in DATAGRAM frames (RFC 9221): `cargo run --example datagrams`. The client sends ten
//! requests, and prints how long each response took.

use std::time::{Duration, Instant};

use anabranch::{Endpoint, Error, SelfSigned, VarInt, config};
use bytes::Bytes;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let identity = SelfSigned::new(["localhost"])?;
    let server = Endpoint::server(identity.server_config(["time"])?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let connection = server.accept().await?.await.ok()?;
        while let Ok(question) = connection.read_datagram().await {
            connection.send_datagram(question).ok()?;
        }
        Some(())
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let client_config = config::client(identity.roots()?, ["time"])?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    println!("a datagram holds up to {} bytes", connection.max_datagram_size().ok_or("no datagrams")?);
    for number in 0..10_u8 {
        let asked = Instant::now();
        connection.send_datagram(Bytes::copy_from_slice(&[number]))?;
        match tokio::time::timeout(Duration::from_secs(1), connection.read_datagram()).await {
            Ok(answer) => println!("{}: {:?}", answer?[0], asked.elapsed()),
            Err(_) => println!("{number}: lost"),
        }
    }
    connection.close(VarInt::ZERO, b"");
    client.wait_close_sent().await;
    Ok(())
}
