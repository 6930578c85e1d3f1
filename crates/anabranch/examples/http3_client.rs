//! Fetches a URL over HTTP/3 and writes it to standard output: `cargo run --example http3_client -- URL
//! [CERTIFICATE]`. Without a certificate to trust, the system's root certificates are trusted.

use std::io::Write;
use std::path::Path;

use anabranch::http3::Client;
use anabranch::{Endpoint, Error, config};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: http3_client URL [CERTIFICATE]")?;
    let roots = match arguments.next() {
        Some(file) => config::roots(Path::new(&file))?,
        None => config::system_roots()?,
    };
    let client = Client::new(Endpoint::client("[::]:0".parse()?)?, config::client(roots, ["h3"])?);
    let mut response = client.get(&url).await?;
    eprintln!("{:?} {}", response.version(), response.status());
    for (name, value) in response.headers() {
        eprintln!("{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    while let Some(piece) = response.body_mut().read_chunk(usize::MAX).await? {
        std::io::stdout().write_all(&piece)?;
    }
    Ok(())
}
