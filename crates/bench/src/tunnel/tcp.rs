//! One TCP flow through the tunnel.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::site::Site;
use super::{Figures, Settings};
use crate::Error;

/// Size of one write, and maximum size of one read, in bytes.
const PIECE: usize = 128 * 1024;
/// Maximum time without a byte.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time over which a rate is averaged, in seconds.
const WINDOW: f64 = 0.5;
/// Share of the rate before an outage that counts as the full rate.
const FULL: f64 = 0.9;

/// Arrivals of a flow: seconds since the first byte, and bytes.
type Arrivals = Vec<(f64, usize)>;

/// Measures a flow that lasts for the settings' time.
pub(super) fn measure(site: Site<'_>, up: bool, settings: &Settings) -> Result<Figures, Error> {
    let (client, socks) = connect(&site)?;
    thread::sleep(settings.settle);
    let arrivals = flow(socks, up, settings.time, || ())?;
    let cpu = site.end(client)?;
    Ok(figures(&arrivals, cpu))
}

/// Measures a flow from the target, while the first link is dead for the middle third of the time.
pub(super) fn outage(site: Site<'_>, settings: &Settings) -> Result<Figures, Error> {
    let (client, socks) = connect(&site)?;
    thread::sleep(settings.settle);
    let (death, end) = (settings.time, 2 * settings.time);
    let arrivals = flow(socks, false, 3 * settings.time, || {
        if let Some(link) = site.link(0) {
            link.blackout(death..end);
        }
    })?;
    let cpu = site.end(client)?;
    let (death, end) = (death.as_secs_f64(), end.as_secs_f64());
    let mut figures = figures(&arrivals, cpu);
    // The outage may begin a little after `death`, because the link counts from shortly after the first byte.
    let during: Arrivals = arrivals.iter().copied().filter(|(at, _)| *at >= death - 0.1).collect();
    figures.gap_ms = Some(longest_gap(&during) * 1e3);
    let before = rate(&arrivals, death / 2.0, death);
    figures.full_rate_ms = full_rate(&arrivals, end, before).map(|seconds| seconds * 1e3);
    Ok(figures)
}

/// Starts a client with a SOCKS5 port.
fn connect(site: &Site<'_>) -> Result<(crate::child::Program, SocketAddr), Error> {
    site.client(&["proxy", "connect"], &["--socks", "127.0.0.1:0"], "listening socks ")
}

fn figures(arrivals: &Arrivals, cpu: f64) -> Figures {
    let bytes: usize = arrivals.iter().map(|(_, bytes)| bytes).sum();
    let seconds = arrivals.last().map_or(f64::NAN, |(at, _)| *at);
    Figures {
        mbps: Some(bytes as f64 * 8e-6 / seconds),
        gap_ms: Some(longest_gap(arrivals) * 1e3),
        cpu_s_per_gb: Some(cpu / (bytes as f64 * 1e-9)),
        ..Figures::default()
    }
}

/// Runs one flow for `time` from the arrival of its first byte. Returns its arrivals. Calls `begun` when the first byte has
/// arrived.
fn flow(socks: SocketAddr, up: bool, time: Duration, begun: impl FnOnce()) -> Result<Arrivals, Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target = listener.local_addr()?;
    let accepting = thread::spawn(move || listener.accept());
    let program = through(socks, target)?;
    let (target, _) = accepting.join().map_err(|_| "the target failed")??;
    let (from, to) = if up { (program, target) } else { (target, program) };
    let writing = thread::spawn(move || write(from));
    let arrivals = read(to, time, begun);
    // The reader has closed its connection, which resets the flow, so the writer ends.
    writing.join().map_err(|_| "the sender failed")?;
    arrivals
}

/// Writes until the connection ends.
fn write(mut stream: TcpStream) {
    let zeros = vec![0; PIECE];
    while stream.write_all(&zeros).is_ok() {}
}

fn read(mut stream: TcpStream, time: Duration, begun: impl FnOnce()) -> Result<Arrivals, Error> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; PIECE];
    let first = stream.read(&mut buffer)?;
    let begin = Instant::now();
    begun();
    let mut arrivals = vec![(0.0, first)];
    while begin.elapsed() < time {
        match stream.read(&mut buffer)? {
            0 => return Err("the flow ended early".into()),
            n => arrivals.push((begin.elapsed().as_secs_f64(), n)),
        }
    }
    Ok(arrivals)
}

/// Connects to `target` through the SOCKS5 proxy (RFC 1928).
pub(super) fn through(socks: SocketAddr, target: SocketAddr) -> Result<TcpStream, Error> {
    let mut stream = TcpStream::connect(socks)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let SocketAddr::V4(target) = target else { return Err("the target has no IPv4 address".into()) };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request)?;
    let mut reply = [0; 2 + 10];
    stream.read_exact(&mut reply)?;
    match reply[3] {
        0 => Ok(stream),
        code => {
            Err(std::io::Error::new(ErrorKind::ConnectionRefused, format!("SOCKS replied {code}")).into())
        }
    }
}

/// Returns the longest time between two arrivals, in seconds.
fn longest_gap(arrivals: &Arrivals) -> f64 {
    arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max)
}

/// Returns the bytes per second that arrived between two times, which are in seconds.
fn rate(arrivals: &Arrivals, from: f64, to: f64) -> f64 {
    let within = arrivals.iter().filter(|(at, _)| (from..to).contains(at));
    within.map(|(_, bytes)| *bytes).sum::<usize>() as f64 / (to - from)
}

/// Returns the seconds from `back` to the begin of the first [`WINDOW`] whose rate is at least the share [`FULL`] of `full`;
/// `None` if there is none.
fn full_rate(arrivals: &Arrivals, back: f64, full: f64) -> Option<f64> {
    let last = arrivals.last()?.0;
    let mut starts =
        (0..).map(|step| back + f64::from(step) * 0.02).take_while(|start| start + WINDOW <= last);
    starts.find(|start| rate(arrivals, *start, start + WINDOW) >= FULL * full).map(|at| at - back)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_the_return_to_the_full_rate_are_found() {
        // 1,000 bytes each 10 ms, half of it from 2 s to 4.3 s, and nothing from 2 s to 2.2 s.
        let all = (0..600).map(|n| (f64::from(n) / 100.0, 1_000));
        let arrivals: Arrivals = all
            .filter(|(at, _)| !(2.0..2.2).contains(at))
            .map(|(at, bytes)| (at, if (2.0..4.3).contains(&at) { bytes / 2 } else { bytes }))
            .collect();
        assert!((longest_gap(&arrivals) - 0.21).abs() < 1e-6);
        assert!((rate(&arrivals, 0.0, 2.0) - 100_000.0).abs() < 1.0);
        let back = full_rate(&arrivals, 4.0, 100_000.0).unwrap();
        assert!((0.18..=0.3).contains(&back), "{back}");
        assert_eq!(full_rate(&arrivals, 4.0, 1e9), None);
        let figures = figures(&arrivals, 1.0);
        assert!((figures.mbps.unwrap() - 0.63).abs() < 0.02, "{figures:?}");
    }
}
