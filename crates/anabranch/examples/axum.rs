//! Serves an axum router over HTTP/3 until Ctrl-C: `cargo run --example axum [IP:PORT]`, then `anabranch get
//! --insecure https://localhost:4433/hello/you -o -`.

use std::time::Duration;

use anabranch::http3::Server;
use anabranch::{Endpoint, Error, SelfSigned};
use axum::extract::Path;
use axum::routing::{get, post};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let router = axum::Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("hello {name}") }))
        .route("/echo", post(|body: axum::body::Body| async { body }));
    let identity = SelfSigned::new(["localhost"])?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let endpoint = Endpoint::server(identity.server_config(["h3"])?, address.parse()?)?;
    println!("listening {}", endpoint.local_addr()?);
    Server::new(endpoint, router).serve_with_shutdown(tokio::signal::ctrl_c(), Duration::from_secs(10)).await;
    Ok(())
}
