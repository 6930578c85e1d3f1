//! `anabranch perf server`: serves clients of `perf`, `hq-interop` and HTTP/3.

use anabranch::{
    Connection, Endpoint, PreferredAddresses, RecvStream, RetryPolicy, SendStream, ServerConfig, VarInt,
};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::json;

use super::pattern::{PATTERN, PIECE};
use super::{ALPN, CpuOptions, Form, Report, http3};
use crate::events::EventsTo;
use crate::exit::{self, Exit, Failure, Result};
use crate::hq;
use crate::identity::Identity;
use crate::listen::HostPort;
use crate::multipath::ServerPaths;
use crate::options::{Tuning, directory, listen, reset_key};
use crate::serve::workers;
use crate::server::{self, Services};
use crate::signal::{Stop, end_of_input};
use crate::verbose::Verbosity;

/// Time for clients to receive CONNECTION_CLOSE when the server stops.
const FAREWELL: Duration = Duration::from_millis(200);

/// Serve perf, hq-interop and HTTP/3 clients until standard input ends or SIGTERM arrives
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// Address, or name of this host, and port to listen on, or :PORT for every address; port 0 lets the
    /// system choose
    #[arg(long, value_name = "HOST:PORT", default_value = ":4433")]
    listen: HostPort,
    #[command(flatten)]
    identity: Identity,
    /// Directory of files for hq-interop and HTTP/3
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Validate every client's address with Retry
    #[arg(long)]
    retry: bool,
    /// Ask clients to migrate to this address
    #[arg(long, value_name = "IP:PORT")]
    preferred: Option<SocketAddr>,
    /// Static key of stateless resets, so that a restarted server resets its earlier connections
    #[arg(long, value_name = "HEX", value_parser = reset_key)]
    reset_key: Option<[u8; 32]>,
    /// Tasks that serve clients at the same time, each with a socket of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers)]
    workers: usize,
    /// Number of session tickets for each client: 0 or 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = tickets, hide = true)]
    tickets: u8,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    pub(super) verbosity: Verbosity,
    #[command(flatten)]
    events: EventsTo,
    #[command(flatten)]
    pub(super) place: CpuOptions,
    #[command(flatten)]
    paths: ServerPaths,
    #[command(flatten)]
    tuning: Tuning,
}

pub(crate) async fn run(options: Server) -> Result {
    let root = options.root.as_deref().map(directory).transpose()?;
    options.events.check(true, "what the server prints")?;
    let events = options.events.open()?;
    let transport = options.tuning.served().with_multipath(options.paths.config());
    let certified = options.identity.load(&[])?.with_resumption(options.tickets > 0);
    let mut config = certified.quic(&[ALPN, hq::ALPN, http3::ALPN], transport)?;
    if options.retry {
        config = config.with_retry(RetryPolicy::Always);
    }
    let preferred = options.preferred.map(|address| match address {
        SocketAddr::V4(v4) => PreferredAddresses::new(Some(v4), None),
        SocketAddr::V6(v6) => PreferredAddresses::new(None, Some(v6)),
    });
    config = config.with_preferred_address(preferred);
    let endpoint = bind(&options, config).await?;
    if let Some(address) = options.preferred {
        let failed = |error| Failure::io(format_args!("cannot listen on {address}"), &error);
        endpoint.add_socket(address).map_err(failed)?;
    }
    let address = endpoint.local_addr().map_err(|error| Failure::io("no local address", &error))?;
    // Catches signals before anybody can know that the server runs.
    let mut stop = Stop::catch()?;
    exit::say(format_args!("listening {address}"))?;
    let services = Arc::new(Services::new(root.as_deref(), events.clone())?);
    tokio::select! {
        () = server::accept(endpoint.clone(), services) => {}
        () = stop.wait() => {}
        () = end_of_input() => {}
    }
    endpoint.close(VarInt::from_u32(0), b"");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_close_sent()).await;
    events.tell("end", || json!({ "exit": 0 }));
    events.flush();
    Report::default().print(options.form)
}

/// Parses a number of tickets. TLS issues this many, or none.
fn tickets(text: &str) -> std::result::Result<u8, String> {
    match text {
        "0" => Ok(0),
        "2" => Ok(2),
        _ => Err("a server issues 0 or 2 tickets".to_owned()),
    }
}

/// Binds the first of the listen addresses that this host has; without a host, every address of this host.
async fn bind(options: &Server, config: ServerConfig) -> Result<Endpoint> {
    let place = &options.listen;
    let mut addresses = place.resolve().await?;
    if addresses.is_empty() {
        addresses =
            vec![(Ipv6Addr::UNSPECIFIED, place.port).into(), (Ipv4Addr::UNSPECIFIED, place.port).into()];
    }
    let listen = |address: &SocketAddr| listen(config.clone(), *address, options.reset_key, options.workers);
    let mut bound = addresses.iter().map(listen);
    let first = bound.next().unwrap_or_else(|| Err(Failure::new(Exit::Resolution, "no address")));
    match first {
        Err(failure) if failure.exit() != Exit::BusyPort => bound.find_map(Result::ok).ok_or(failure),
        first => first,
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(connection: Connection) {
    let echoing = async {
        while let Ok(message) = connection.read_datagram().await {
            // Datagrams are not echoed to a client that does not support them.
            let _ = connection.send_datagram_wait(message).await;
        }
    };
    let answering = async {
        while let Ok((send, receive)) = connection.accept_bi().await {
            tokio::spawn(answer(send, receive));
        }
    };
    tokio::join!(echoing, answering);
}

/// Responds on one stream. Returns `None` if the client has stopped reading or closed the connection.
async fn answer(mut send: SendStream, mut receive: RecvStream) -> Option<()> {
    let mut count = [0; 8];
    receive.read_exact(&mut count).await.ok()?;
    while receive.read_with(<[u8]>::len).await.ok()?.is_some() {}
    write_pattern(&mut send, u64::from_be_bytes(count), |_| {}).await.ok()?;
    send.finish().ok()
}

/// Writes `count` bytes without copying them.
pub(super) async fn write_pattern(
    send: &mut SendStream,
    mut count: u64,
    mut wrote: impl FnMut(u64),
) -> std::result::Result<(), anabranch::WriteError> {
    while count > 0 {
        let len = count.min(PIECE as u64);
        send.write_chunk(Bytes::from_static(&PATTERN[..len as usize])).await?;
        wrote(len);
        count -= len;
    }
    Ok(())
}
