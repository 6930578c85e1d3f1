//! Ways for a client to receive datagrams from its socket, to measure the cost of each.

use std::net::{SocketAddr, UdpSocket};

use anabranch::{Endpoint, random_config, unspecified_for};
use clap::ValueEnum;

use crate::exit::{Failure, Result};

/// Number of datagrams that one system call receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recv {
    /// One datagram
    One,
    /// Several datagrams, not coalesced (recvmmsg)
    Mmsg,
    /// Several groups of datagrams that the kernel has coalesced (recvmmsg and GRO), the default
    Many,
}

/// Creates a client's endpoint for `remote`. The endpoint receives as many datagrams per system call as
/// `recv` says.
pub(super) fn endpoint(remote: SocketAddr, recv: Recv) -> Result<Endpoint> {
    let bound = || -> std::io::Result<Endpoint> {
        let socket = UdpSocket::bind(unspecified_for(remote))?;
        let same = socket.try_clone()?;
        let endpoint = Endpoint::new(&random_config()?, None, socket)?;
        if recv != Recv::Many {
            separate(&same)?;
        }
        if recv == Recv::One {
            endpoint.set_receive_buffers(1);
        }
        Ok(endpoint)
    };
    bound().map_err(|error| Failure::io("cannot bind a UDP socket", &error))
}

/// Disables GRO, so that the kernel returns each datagram separately.
#[cfg(target_os = "linux")]
fn separate(socket: &UdpSocket) -> std::io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::UdpGroSegment};
    Ok(setsockopt(socket, UdpGroSegment, &false)?)
}

/// Does nothing: other kernels return each datagram separately anyway.
#[cfg(not(target_os = "linux"))]
fn separate(_: &UdpSocket) -> std::io::Result<()> {
    Ok(())
}
