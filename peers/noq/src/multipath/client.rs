//! Client side.

use std::sync::Arc;
use std::time::Instant;

use peer_common::args::{Case, Client, Work};
use peer_common::progress::share;
use peer_common::report::Report;
use peer_common::{Failure, failed, socket};
use quinn::{ClientConfig, Connection, Endpoint, TokioRuntime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::content::{self, Moved};
use super::paths::Paths;
use super::{ALPN, Options, endpoint_config, transport};
use crate::tls;

/// Connects, follows the plan, does the work and reports.
pub async fn run(shared: Client, options: Options) -> Result<(), Failure> {
    let Work::Perf { download, upload, streams } = shared.work else {
        return failed("a multipath case has --download, --upload and --streams");
    };
    let only_chacha20 = shared.case == Case::ChaCha20;
    let wish = tls::Wish { ca: &shared.ca, alpn: ALPN, only_chacha20, resume: false };
    let mut config = ClientConfig::new(tls::client(&wish)?.0);
    config.transport_config(transport(&shared.common, &options)?);
    let socket = socket::bind(socket::any_like(shared.connect))?;
    let endpoint = Endpoint::new(endpoint_config(&options), None, socket, Arc::new(TokioRuntime))?;
    let connection = endpoint.connect_with(config, shared.connect, &shared.name)?.await?;
    connection.handshake_confirmed().await?;

    let moved = Arc::new(Moved::new(0));
    let paths = Paths::new(connection.clone(), Arc::clone(&moved));
    let shares =
        (0..streams).map(|index| [download, upload].map(|count| share(count, index, streams))).collect();
    let working = work(connection.clone(), shares, Arc::clone(&moved), paths.started());
    let start = Instant::now();
    tokio::try_join!(paths.follow(&options.plan), working)?;
    let multipath = connection.is_multipath_enabled();
    let report = Report::new().raw("multipath", multipath).raw("steps", paths.report());
    report.raw("sha256_ok", true).goodput(*moved.borrow(), start.elapsed()).cpu().print();
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// Waits for the start, then does the download and the upload of each stream.
async fn work(
    connection: Connection,
    shares: Vec<[u64; 2]>,
    moved: Arc<Moved>,
    mut started: watch::Receiver<bool>,
) -> Result<(), Failure> {
    started.wait_for(|started| *started).await?;
    let mut streams = JoinSet::new();
    for [download, upload] in shares {
        streams.spawn(content::ask(connection.clone(), download, upload, Arc::clone(&moved)));
    }
    while let Some(done) = streams.join_next().await {
        done??;
    }
    Ok(())
}
