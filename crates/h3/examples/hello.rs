//! A server and a client of the h3 crate that use anabranch as their transport. Prints the server's response.

use anabranch::{Endpoint, Error, SelfSigned, config};
use anabranch_h3::Connection;
use bytes::{Buf, Bytes};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let identity = SelfSigned::new(["localhost"])?;
    let server = Endpoint::server(identity.server_config(["h3"])?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(serve(server));

    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(config::client(identity.roots()?, ["h3"])?);
    let transport = Connection::new(endpoint.connect(address, "localhost")?.await?);
    let (mut driver, mut requests) = h3::client::new(transport).await?;
    let driver = tokio::spawn(async move { driver.wait_idle().await });

    let request = http::Request::get("https://localhost/").body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    println!("{}", stream.recv_response().await?.status());
    while let Some(mut data) = stream.recv_data().await? {
        println!("{}", String::from_utf8_lossy(&data.copy_to_bytes(data.remaining())));
    }
    drop(requests);
    driver.await?;
    Ok(())
}

async fn serve(endpoint: Endpoint) -> Result<(), Error> {
    while let Some(client) = endpoint.accept().await {
        let mut connection = h3::server::Connection::new(Connection::new(client.await?)).await?;
        while let Some(request) = connection.accept().await? {
            let (request, mut stream) = request.resolve_request().await?;
            stream.send_response(http::Response::new(())).await?;
            stream.send_data(Bytes::from(format!("You asked for {}.", request.uri().path()))).await?;
            stream.finish().await?;
        }
    }
    Ok(())
}
