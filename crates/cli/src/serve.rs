//! `anabranch serve`: files of a directory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::exit::{self, Exit, Failure, Result};
use crate::hq;
use crate::options::{Identity, Tuning, directory, listen};
use crate::server::{self, Services};
use crate::signal::Stop;

/// How long clients get to learn that the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serve the files of a directory over QUIC (hq-interop)
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 lets the system choose
    #[arg(long, value_name = "IP:PORT", default_value = "[::]:4433")]
    listen: SocketAddr,
    /// Directory whose files are served; nothing outside of it is
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) async fn run(options: Serve) -> Result {
    let root = Some(directory(&options.root)?);
    let config = options.identity.config(&[hq::ALPN], options.tuning.transport())?;
    let endpoint = listen(config, options.listen, None)?;
    let address = endpoint.local_addr().map_err(|error| Failure::io("no local address", &error))?;
    // Before anybody can know that there is something to stop.
    let mut stop = Stop::catch()?;
    exit::say(format_args!("listening {address}"))?;
    if options.identity.cert.is_none() {
        exit::note("anabranch: the certificate is made up; clients need --insecure");
    }
    let accepting = server::accept(endpoint.clone(), Arc::new(Services { root, log: true }));
    tokio::select! {
        () = accepting => return Err(Failure::new(Exit::Io, "the socket failed")),
        () = stop.wait() => {}
    }
    endpoint.close(0, b"");
    // Clients that do not listen any longer are not waited for.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(())
}
