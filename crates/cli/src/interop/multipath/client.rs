//! The client of multipath cases.

use anabranch::{Connection, VarInt, Version};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::content::{self, Moved};
use super::paths::Paths;
use super::{ALPN, Common, FAREWELL};
use crate::exit::{self, Exit, Failure, Result};
use crate::options::{ClientPlan, Trust};
use crate::target::client_endpoint;

#[derive(Args, Debug)]
pub(in crate::interop) struct Client {
    /// Address of the server
    #[arg(long, value_name = "IP:PORT")]
    connect: SocketAddr,
    /// The server's name in the certificate
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    name: String,
    #[command(flatten)]
    trust: Trust,
    /// `chacha20` to offer only ChaCha20-Poly1305
    #[arg(long, default_value = "transfer", value_parser = ["transfer", "chacha20"])]
    case: String,
    /// Bytes to receive, split over the streams
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    download: u64,
    /// Bytes to send, split over the streams
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    upload: u64,
    /// Number of streams
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,
    #[command(flatten)]
    common: Common,
}

impl Client {
    /// Returns for each stream the number of bytes to download and to upload.
    fn shares(&self) -> Vec<[u64; 2]> {
        let share = |total, index| total / self.streams + u64::from(index < total % self.streams);
        (0..self.streams).map(|index| [share(self.download, index), share(self.upload, index)]).collect()
    }
}

pub(super) async fn run(options: Client) -> Result {
    let transport = options.common.transport();
    let chacha20 = options.case == "chacha20";
    let config = ClientPlan {
        trust: &options.trust,
        alpn: ALPN,
        transport,
        first: Version::V1,
        chacha20,
        resume: false,
    }
    .config()?;
    let endpoint = client_endpoint(options.connect)?;
    let connecting = endpoint.connect_with(&config, options.connect, &options.name)?;
    let connection = connecting.await.map_err(exit::handshake)?;
    connection.confirmed().await?;

    let moved = Arc::new(Moved::new(0));
    let paths = Paths::new(connection.clone(), Arc::clone(&moved));
    let start = Instant::now();
    let working = work(connection.clone(), options.shares(), Arc::clone(&moved), paths.started());
    tokio::try_join!(paths.follow(&options.common.plan), working)?;
    exit::say(json!({
        "multipath": connection.is_multipath(),
        "steps": paths.report(),
        "sha256_ok": true,
        "bytes": *moved.borrow(),
        "seconds": start.elapsed().as_secs_f64(),
        "key_updates": connection.stats().key_updates,
    }))?;
    connection.close(VarInt::from_u32(0), b"");
    // A server that does not receive the CONNECTION_CLOSE detects the end by its idle timeout.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(())
}

/// Transfers each stream's bytes in both directions, once the plan starts the work.
async fn work(
    connection: Connection,
    shares: Vec<[u64; 2]>,
    moved: Arc<Moved>,
    mut started: watch::Receiver<bool>,
) -> Result {
    if started.wait_for(|started| *started).await.is_err() {
        return Err(Failure::new(Exit::Failed, "nobody goes through the plan"));
    }
    let mut streams = JoinSet::new();
    for [download, upload] in shares {
        streams.spawn(content::ask(connection.clone(), download, upload, Arc::clone(&moved)));
    }
    while let Some(done) = streams.join_next().await {
        done.map_err(|error| Failure::new(Exit::Failed, error))??;
    }
    Ok(())
}
