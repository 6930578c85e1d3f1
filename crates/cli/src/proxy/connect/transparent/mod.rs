//! Connections of programs that know of no proxy, which rules of the kernel lead to a port of this command.

mod capture;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anabranch::proxy::client::Target;
use bytes::Bytes;
use clap::Args;
use ipnet::IpNet;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tracing::debug;

pub(super) use self::capture::{Capture, MARK};
use super::local::{Local, MAX_PROGRAMS};
use super::{Shared, stream};
use crate::exit::{Exit, Failure, Result};
use crate::listen::HostPort;
use crate::options::{cannot_listen, network};

/// Options for connections that are captured.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Transparent {
    /// Carry all TCP connections of this host, whose programs need no proxy then: rules of nftables lead them to this port.
    /// With 0.0.0.0:PORT or [::]:PORT also those of hosts for which this one is a router. Needs `nft` and the capability
    /// CAP_NET_ADMIN; may be repeated
    #[arg(long, value_name = "[ADDR:]PORT")]
    transparent: Vec<HostPort>,
    #[command(flatten)]
    networks: Networks,
}

/// Networks whose connections are captured, or not.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    /// Capture connections to this network, too, although it is private, or local to a link; may be repeated
    #[arg(long = "capture", value_name = "NETWORK", value_parser = network, requires = "transparent")]
    captured: Vec<IpNet>,
    /// Capture no connections to this network; may be repeated
    #[arg(long = "not-capture", value_name = "NETWORK", value_parser = network, requires = "transparent")]
    spared: Vec<IpNet>,
}

impl Transparent {
    pub(super) fn is_empty(&self) -> bool {
        self.transparent.is_empty()
    }

    pub(super) fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Returns the mark of this command's own TCP connections, if any are captured.
    pub(super) fn mark(&self) -> Option<u32> {
        (!self.is_empty()).then_some(MARK)
    }

    /// Returns the addresses of the ports, and whether this host must have each. Without an address, there is one port for each
    /// version of IP.
    ///
    /// # Errors
    /// Fails for an address to which the kernel does not lead connections.
    pub(super) fn places(&self) -> Result<Vec<(SocketAddr, bool)>> {
        let mut places = Vec::new();
        for place in &self.transparent {
            let Some(host) = &place.host else {
                places.push(((Ipv4Addr::LOCALHOST, place.port).into(), true));
                places.push(((Ipv6Addr::LOCALHOST, place.port).into(), false));
                continue;
            };
            let address = host.parse().ok().map(|ip| SocketAddr::new(ip, place.port));
            let led = address.filter(|address| {
                let ip = address.ip();
                place.has_port
                    && (ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST)
            });
            let wrong =
                || Failure::new(Exit::Usage, format!("--transparent {place}: no connections are led there"));
            places.push((led.ok_or_else(|| wrong().or("write PORT, 0.0.0.0:PORT or [::]:PORT"))?, true));
        }
        Ok(places)
    }
}

impl Networks {
    /// Returns the keys of the options that differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differences =
            [("capture", self.captured != other.captured), ("not_capture", self.spared != other.spared)];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// Binds a port; `None` if this host need not have the address and does not.
pub(super) fn bind(address: SocketAddr, must: bool) -> Result<Option<Local>> {
    match listen(address).and_then(Local::new) {
        Ok(local) => Ok(Some(local)),
        Err(error) if !must && is_absent(&error) => Ok(None),
        Err(error) => Err(cannot_listen(address, &error)),
    }
}

/// Returns whether the host does not have an address, or its version of IP.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // The original destination of IPv4 is known to sockets of IPv4 alone.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(MAX_PROGRAMS).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Serves the connection of a program. It is reset if there is no tunnel to its destination.
pub(super) async fn serve(program: TcpStream, shared: &Shared) {
    let target = match destination(&program) {
        Ok(Some(target)) => Target::from(target),
        Ok(None) => return reset(&program, "it was not captured"),
        Err(error) => return reset(&program, &error),
    };
    match stream::open(&shared.client, &target).await {
        Ok(tunnel) => tunnel.carry(program, Bytes::new()).await,
        Err(error) => reset(&program, &error),
    }
}

/// Returns the address that a program connected to; `None` if that was this port.
fn destination(program: &TcpStream) -> io::Result<Option<SocketAddr>> {
    let own = program.local_addr()?;
    let socket = SockRef::from(program);
    let original = if own.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
    Ok(original?.as_socket().filter(|original| *original != own))
}

/// Has the connection reset when it is dropped.
fn reset(program: &TcpStream, why: impl std::fmt::Display) {
    debug!(target: "anabranch::proxy", %why, "a captured connection is reset");
    // Without it, the program sees the end of the connection.
    let _ = SockRef::from(program).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests;
