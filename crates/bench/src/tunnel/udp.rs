//! One flow of UDP datagrams through the tunnel.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::site::Site;
use super::{Figures, Settings};
use crate::Error;

/// Interval at which the sender sends all datagrams that are due.
const TICK: Duration = Duration::from_micros(250);
/// Time to wait for datagrams after the last one was sent.
const FAREWELL: Duration = Duration::from_secs(1);
/// Time in which the connection finds the rates of its paths. What is lost then is left out of the steady loss.
const START: Duration = Duration::from_secs(2);
/// Length of the number and the time in a datagram, in bytes.
const HEAD: usize = 16;
/// Weight of a new transit time difference in the jitter (RFC 3550 §6.4.1).
const GAIN: f64 = 1.0 / 16.0;

/// Datagrams that the target has received.
#[derive(Debug, Default)]
struct Received {
    /// For each number, whether a datagram with it has arrived.
    seen: Vec<bool>,
    count: u64,
    bytes: u64,
    jitter: f64,
    sum_of_jitter: f64,
    last_transit: Option<f64>,
    /// Seconds from the first to the last datagram.
    seconds: f64,
}

impl Received {
    /// Records a datagram that was sent at `sent` and arrived at `at`, both in seconds. Ignores duplicates.
    fn record(&mut self, number: usize, sent: f64, at: f64, len: usize) {
        if self.seen.len() <= number {
            self.seen.resize(number + 1, false);
        }
        if std::mem::replace(&mut self.seen[number], true) {
            return;
        }
        self.count += 1;
        self.bytes += len as u64;
        let transit = at - sent;
        if let Some(last) = self.last_transit.replace(transit) {
            self.jitter += ((transit - last).abs() - self.jitter) * GAIN;
        }
        self.sum_of_jitter += self.jitter;
    }
}

/// Measures a flow to the target through the tunnel.
pub(super) fn measure(site: Site<'_>, mbps: f64, len: usize, settings: &Settings) -> Result<Figures, Error> {
    let target = UdpSocket::bind("127.0.0.1:0")?;
    let route = format!("127.0.0.1:0={}/udp", target.local_addr()?);
    let (client, port) = site.client(&["forward"], &[&route], "forwarding ")?;
    thread::sleep(settings.settle);
    let flow = carry(port, target, mbps, len, settings.time)?;
    flow.figures(site.end(client)?)
}

/// A flow that has ended, as its sender and the target saw it.
pub(super) struct Carried {
    sent: u64,
    /// Number of the first datagram that was sent after [`START`].
    steady: u64,
    received: Received,
}

impl Carried {
    /// Returns the figures of the flow, which took `cpu` seconds of both ends of the tunnel.
    pub(super) fn figures(&self, cpu: f64) -> Result<Figures, Error> {
        let Received { count, bytes, seconds, sum_of_jitter, .. } = self.received;
        if count == 0 || seconds <= 0.0 {
            return Err("no datagram arrived".into());
        }
        let steady = self.received.seen.iter().skip(self.steady as usize).filter(|is_seen| **is_seen).count();
        let (count, steady) = (count as f64, steady as f64 / (self.sent - self.steady) as f64);
        Ok(Figures {
            mbps: Some(bytes as f64 * 8e-6 / seconds),
            loss_percent: Some(100.0 * (1.0 - count / self.sent as f64)),
            steady_loss_percent: Some(100.0 * (1.0 - steady)),
            jitter_ms: Some(sum_of_jitter / count * 1e3),
            cpu_s_per_gb: Some(cpu / (bytes as f64 * 1e-9)),
            packets_per_s: Some(count / seconds),
            ..Figures::default()
        })
    }
}

/// Sends a flow of datagrams to `port` for a time, and receives what leaves the tunnel at `target`.
pub(super) fn carry(
    port: SocketAddr,
    target: UdpSocket,
    mbps: f64,
    len: usize,
    time: Duration,
) -> Result<Carried, Error> {
    target.set_read_timeout(Some(Duration::from_millis(50)))?;
    let over = Arc::new(AtomicBool::new(false));
    let epoch = Instant::now();
    let receiving = thread::spawn({
        let over = Arc::clone(&over);
        move || receive(&target, epoch, &over)
    });
    let sent = send(port, epoch, mbps, len, time)?;
    thread::sleep(FAREWELL);
    over.store(true, Ordering::Relaxed);
    let received = receiving.join().map_err(|_| "the target failed")?;
    // Short runs are halved.
    let start = START.min(time / 2).as_secs_f64() / time.as_secs_f64();
    Ok(Carried { sent, steady: (sent as f64 * start) as u64, received })
}

/// Sends datagrams at a rate for a time. Returns their number.
fn send(to: SocketAddr, epoch: Instant, mbps: f64, len: usize, time: Duration) -> Result<u64, Error> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(to)?;
    let mut datagram = vec![0; len.max(HEAD)];
    // The first datagram opens the flow.
    socket.send(&datagram)?;
    thread::sleep(Duration::from_millis(500));
    let per_second = mbps * 1e6 / 8.0 / datagram.len() as f64;
    let begin = Instant::now();
    let mut sent = 1;
    while begin.elapsed() < time {
        let due = 1 + (begin.elapsed().as_secs_f64() * per_second) as u64;
        while sent < due {
            datagram[..8].copy_from_slice(&sent.to_be_bytes());
            datagram[8..HEAD].copy_from_slice(&nanos(epoch).to_be_bytes());
            socket.send(&datagram)?;
            sent += 1;
        }
        thread::sleep(TICK);
    }
    Ok(sent)
}

fn receive(socket: &UdpSocket, epoch: Instant, over: &AtomicBool) -> Received {
    let mut received = Received::default();
    let mut buffer = vec![0; 65_535];
    let mut first = None;
    while !over.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let now = nanos(epoch) as f64 * 1e-9;
        let number =
            |at: usize| buffer[at..at + 8].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        if number(0) == 0 {
            // The datagram that opened the flow is counted, but has no transit time.
            received.count += 1;
            continue;
        }
        received.record(number(0) as usize, number(8) as f64 * 1e-9, now, len);
        received.seconds = now - *first.get_or_insert(now);
    }
    received
}

fn nanos(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_count_once_and_jitter_is_that_of_the_standard() {
        let mut received = Received::default();
        for n in 0..1_000_usize {
            let sent = n as f64 * 0.01;
            // Every second datagram takes 3 ms longer.
            let transit = 0.02 + if n % 2 == 1 { 0.003 } else { 0.0 };
            received.record(n, sent, sent + transit, 100);
            received.record(n, sent, sent + 0.5, 100);
        }
        assert_eq!((received.count, received.bytes), (1_000, 100_000));
        assert!((received.jitter - 0.003).abs() < 1e-4, "{}", received.jitter);
    }
}
