//! A server that echoes the data of each stream, and a client that uses it, over the loopback interface:
//! `cargo run --example echo`.

use anabranch::{Endpoint, Error, Incoming, SelfSigned, VarInt, config};

/// Maximum length of a message in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let identity = SelfSigned::new(["localhost"])?;
    let server = Endpoint::server(identity.server_config(["echo"])?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                if let Err(error) = serve(incoming).await {
                    eprintln!("server: {error}");
                }
            });
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let client_config = config::client(identity.roots()?, ["echo"])?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    for message in ["hello", "again"] {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(message.as_bytes()).await?;
        send.finish()?;
        let echo = receive.read_to_end(MAX_MESSAGE).await?;
        println!("{}", String::from_utf8_lossy(&echo));
    }
    connection.close(VarInt::ZERO, b"done");
    client.wait_close_sent().await;
    Ok(())
}

async fn serve(incoming: Incoming) -> Result<(), Error> {
    let connection = incoming.await?;
    // The loop ends with the connection.
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let message = receive.read_to_end(MAX_MESSAGE).await?;
        send.write_all(&message).await?;
        send.finish()?;
    }
    Ok(())
}
