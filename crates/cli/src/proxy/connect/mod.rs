//! `anabranch proxy connect`: the end of the tunnel that programs use, as a SOCKS5 and an HTTP proxy on this
//! host.

pub(crate) mod flows;
mod http;
pub(crate) mod local;
mod socks;
pub(crate) mod stream;
pub(crate) mod way;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;

use self::local::{Guard, Local};
use self::way::Way;
use crate::exit::{self, Exit, Failure, Result};
use crate::listen::HostPort;
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Stop;
use crate::verbose::Verbosity;

/// Offer programs of this host a SOCKS5 and an HTTP proxy, whose connections are carried over all networks at
/// once
///
/// Names of hosts are resolved by the proxy, not here. SOCKS5 carries TCP (CONNECT) and UDP (UDP ASSOCIATE),
/// HTTP carries what CONNECT asks for, which is all of HTTPS
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    way: Way,
    /// Address and port of the SOCKS5 proxy for programs; may be repeated [default: 127.0.0.1:1080, unless
    /// there is
    /// --http]
    #[arg(long, value_name = "HOST:PORT")]
    socks: Vec<HostPort>,
    /// Address and port of the HTTP proxy for programs; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    http: Vec<HostPort>,
    /// Let only programs in that know the name and the password in this file, NAME:PASSWORD
    #[arg(long, value_name = "FILE")]
    local_user_file: Option<PathBuf>,
    /// Seconds without a datagram after which a UDP flow ends
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    udp_idle: u32,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Kind of a local proxy.
#[derive(Clone, Copy, Debug)]
enum Speaks {
    Socks,
    Http,
}

pub(crate) async fn run(mut options: Connect) -> Result {
    if options.socks.is_empty() && options.http.is_empty() {
        options.socks = vec![HostPort { host: Some("127.0.0.1".to_owned()), port: 1080, has_port: true }];
    }
    let guard = options.local_user_file.as_deref().map(Guard::load).transpose()?;
    // Catches signals before anybody can know that the command runs.
    let mut stop = Stop::catch()?;
    raise_descriptors();
    let mut locals = Vec::new();
    for (places, speaks) in [(&options.socks, Speaks::Socks), (&options.http, Speaks::Http)] {
        for place in places {
            locals.extend(Local::bind(place).await?.into_iter().map(|local| (speaks, local)));
        }
    }
    let proxy = tokio::select! {
        connected = options.way.connect() => connected?,
        () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    exit::say(announcement(&locals, guard.is_some()))?;
    systemd::ready();
    let mut running = JoinSet::new();
    let idle = Duration::from_secs(options.udp_idle.into());
    let shared = Arc::new(Shared { proxy: proxy.clone(), guard, idle });
    for (speaks, local) in locals {
        let shared = Arc::clone(&shared);
        running.spawn(local.accept(move |stream| {
            let shared = Arc::clone(&shared);
            async move {
                match speaks {
                    Speaks::Socks => socks::serve(stream, &shared).await,
                    Speaks::Http => http::serve(stream, shared).await,
                }
            }
        }));
    }
    running.spawn(way::tell_states(proxy.clone()));
    stop.wait().await;
    systemd::stopping();
    way::end(&proxy, &mut running).await;
    Ok(())
}

/// State that the local proxies share.
#[derive(Debug)]
struct Shared {
    proxy: anabranch::proxy::client::Proxy,
    /// Password of programs; `None` if anyone may connect.
    guard: Option<Guard>,
    /// Silence after which a UDP flow ends.
    idle: Duration,
}

/// Returns the lines for programs that start this one, and for people a warning if others may use the proxy.
fn announcement(locals: &[(Speaks, Local)], is_guarded: bool) -> String {
    let lines: Vec<_> = locals
        .iter()
        .map(|(speaks, local)| {
            let name = match speaks {
                Speaks::Socks => "socks",
                Speaks::Http => "http",
            };
            format!("listening {name} {}", local.address())
        })
        .collect();
    let is_open = |address: SocketAddr| !address.ip().is_loopback() && !is_guarded;
    if locals.iter().any(|(_, local)| is_open(local.address())) {
        exit::note("anabranch: other hosts can use this proxy without a password; see --local-user-file");
    }
    lines.join("\n")
}
