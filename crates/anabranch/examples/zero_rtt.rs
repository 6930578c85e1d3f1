//! A request in early data (0-RTT, RFC 9001 §4.6): the second connection sends it before the server has
//! responded. `cargo run --example zero_rtt`. An attacker can replay early data, so it must not change
//! anything.

use anabranch::{Connection, Endpoint, Error, SelfSigned, ServerConfig, VarInt, config, tls};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let identity = SelfSigned::new(["localhost"])?;
    // The server must allow early data.
    let tls = tls::ServerConfig::builder()
        .certificate(vec![identity.certificate().clone()], identity.key())
        .alpn(["question"])
        .early_data(true)
        .build()?;
    let server = Endpoint::server(ServerConfig::new(tls), "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await?;
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    receive.read_to_end(100).await?;
                    send.write_all(b"42").await?;
                    send.finish()?;
                }
                Ok::<_, Error>(())
            });
        }
    });

    // The configuration stores the sessions; the next connection resumes one.
    let client_config = config::client(identity.roots()?, ["question"])?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    for _ in 0..2 {
        let connecting = client.connect_with(&client_config, address, "localhost")?;
        let connection = match connecting.into_0rtt() {
            Ok((connection, accepted)) => {
                let answer = ask(&connection).await?;
                println!("{answer} (early data accepted: {})", accepted.await);
                connection
            }
            // No session of the server is stored yet.
            Err(connecting) => {
                let connection = connecting.await?;
                println!("{} (after a handshake)", ask(&connection).await?);
                connection
            }
        };
        connection.close(VarInt::ZERO, b"");
    }
    client.wait_close_sent().await;
    Ok(())
}

async fn ask(connection: &Connection) -> Result<String, Error> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"how many?").await?;
    send.finish()?;
    Ok(String::from_utf8(receive.read_to_end(100).await?)?)
}
