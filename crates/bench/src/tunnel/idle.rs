//! Memory of the proxy for each of many idle flows.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use super::site::Site;
use super::{Figures, tcp};
use crate::Error;

/// Number of flows.
const MANY: usize = 2_000;
/// Time in which the proxy frees the memory that it needs only while flows are opened.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) fn measure(site: Site<'_>, udp: bool) -> Result<Figures, Error> {
    raise_descriptors()?;
    if udp { udp_flows(site) } else { tcp_flows(site) }
}

fn tcp_flows(site: Site<'_>) -> Result<Figures, Error> {
    let (client, socks) = site.client(
        &["proxy", "connect"],
        &["--socks", "127.0.0.1:0", "--socks", "127.0.0.1:0"],
        "listening socks ",
    )?;
    let mut client = client;
    // A SOCKS5 port serves at most 1,024 programs at the same time, so there are two ports.
    let other: SocketAddr =
        client.line()?.strip_prefix("listening socks ").ok_or("no second port")?.parse()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target = listener.local_addr()?;
    let mut kept = vec![(tcp::through(socks, target)?, listener.accept()?.0)];
    thread::sleep(SETTLE);
    let before = site.memory()?;
    for n in 0..MANY {
        let program = tcp::through(if n % 2 == 0 { socks } else { other }, target)?;
        kept.push((program, listener.accept()?.0));
    }
    thread::sleep(SETTLE);
    let bytes = (site.memory()? - before) / MANY as f64;
    drop(kept);
    site.end(client)?;
    Ok(Figures { bytes_per_flow: Some(bytes), ..Figures::default() })
}

fn udp_flows(site: Site<'_>) -> Result<Figures, Error> {
    let target = UdpSocket::bind("127.0.0.1:0")?;
    // A forwarded port has at most 1,024 UDP flows, so there are two ports.
    let route = format!("127.0.0.1:0={}/udp", target.local_addr()?);
    let (mut client, first) = site.client(&["forward"], &[&route, &route], "forwarding ")?;
    let line = client.line()?;
    let second = line.strip_prefix("forwarding ").and_then(|rest| rest.split(' ').next());
    let second: SocketAddr = second.ok_or("no second port")?.parse()?;
    let mut buffer = [0; 100];
    let mut open = |to: SocketAddr| -> Result<UdpSocket, Error> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.connect(to)?;
        socket.send(b"ping")?;
        let (len, from) = target.recv_from(&mut buffer)?;
        target.send_to(&buffer[..len], from)?;
        socket.recv(&mut buffer)?;
        Ok(socket)
    };
    let mut kept = vec![open(first)?];
    thread::sleep(SETTLE);
    let before = site.memory()?;
    for n in 0..MANY {
        kept.push(open(if n % 2 == 0 { first } else { second })?);
    }
    thread::sleep(SETTLE);
    let bytes = (site.memory()? - before) / MANY as f64;
    drop(kept);
    site.end(client)?;
    Ok(Figures { bytes_per_flow: Some(bytes), ..Figures::default() })
}

/// Raises this process's limit on open files to the hard limit.
fn raise_descriptors() -> Result<(), Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer leads to a value that lives until the call returns.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the same.
    if got != 0 || unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}
