//! `anabranch demo`: a transfer between a server and a client in this process, and what it took.

use std::time::{Duration, Instant};

use anabranch::{Connection, ConnectionError, Endpoint, SelfSigned, config};
use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{self, Exit, Failure, Result};

/// Application protocol between the two.
const ALPN: [&str; 1] = ["anabranch-demo"];
/// Bytes that the server makes at a time.
const PIECE: usize = 64 * 1024;
/// Most that can be moved, in millions of bytes; a stream ends at 2^62 (RFC 9000 §4.5).
const MAX_SIZE: u64 = 1_000_000_000_000;
/// Length of the digest that ends the stream.
const DIGEST: usize = 32;

/// Move data over the loopback interface and show how it went
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Millions of bytes to move
    #[arg(long, value_name = "MB", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(..=MAX_SIZE))]
    size: u64,
}

pub(crate) async fn run(options: Demo) -> Result {
    let size = options.size * 1_000_000;
    let identity = SelfSigned::new(["localhost"])?;
    let loopback = ([127, 0, 0, 1], 0).into();
    let cannot_bind = |error| Failure::io("cannot bind to the loopback interface", &error);
    let server = Endpoint::server(identity.server_config(ALPN)?, loopback).map_err(cannot_bind)?;
    let address = server.local_addr().map_err(cannot_bind)?;
    let serving = tokio::spawn(serve(server, size));

    let client = Endpoint::client(loopback).map_err(cannot_bind)?;
    let begin = Instant::now();
    let connecting = client.connect_with(&config::client(identity.roots()?, ALPN)?, address, "localhost")?;
    let connection = connecting.await.map_err(exit::handshake)?;
    let handshake = begin.elapsed();
    let begin = Instant::now();
    let (ours, theirs) = receive(&connection, size).await?;
    let took = begin.elapsed();
    let matches = ours == theirs;
    let rtt = connection.rtt();
    connection.close(0, b"");
    let sender = serving.await.map_err(|error| Failure::new(Exit::Protocol, error))??;
    table(size, handshake, took, rtt, &sender, &ours, matches)?;
    if matches { Ok(()) } else { Err(Failure::new(Exit::Protocol, "the data changed on its way")) }
}

/// What the sending end counted.
struct Sent {
    datagrams: u64,
    lost_packets: u64,
    mtu: u16,
}

/// Sends `size` bytes that do not repeat, then their digest.
async fn serve(endpoint: Endpoint, size: u64) -> Result<Sent> {
    let gone = || Failure::new(Exit::Protocol, "nobody connected");
    let connection = endpoint.accept().await.ok_or_else(gone)?.await.map_err(exit::handshake)?;
    let mut stream = connection.open_uni().await?;
    let mut digest = Context::new(&SHA256);
    let mut generator = Generator(0x2545_f491_4f6c_dd1d);
    let mut left = size;
    while left > 0 {
        let len = left.min(PIECE as u64);
        let piece = generator.piece(len as usize);
        digest.update(&piece);
        stream.write_chunk(Bytes::from(piece)).await?;
        left -= len;
    }
    stream.write_all(digest.finish().as_ref()).await?;
    stream.finish().map_err(|error| Failure::new(Exit::Protocol, error))?;
    match connection.closed().await {
        ConnectionError::PeerApplication { code: 0, .. } => {}
        error => return Err(error.into()),
    }
    let stats = connection.stats();
    Ok(Sent {
        datagrams: stats.paths.iter().map(|path| path.datagrams_sent).sum(),
        lost_packets: stats.paths.iter().map(|path| path.recovery.lost_packets).sum(),
        mtu: stats.paths.first().map_or(0, |path| path.mtu),
    })
}

/// Receives `size` bytes and a digest: what was computed here, and what the server says.
async fn receive(connection: &Connection, size: u64) -> Result<(Vec<u8>, Vec<u8>)> {
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}");
    let bar = ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut stream = connection.accept_uni().await?;
    let mut digest = Context::new(&SHA256);
    let (mut left, mut theirs) = (size, Vec::with_capacity(DIGEST));
    let mut read = |bytes: &[u8]| {
        let data = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        digest.update(&bytes[..data]);
        theirs.extend(bytes[data..].iter().take(DIGEST));
        left -= data as u64;
        bar.inc(data as u64);
        bytes.len()
    };
    while stream.read_with(&mut read).await?.is_some() {}
    bar.finish_and_clear();
    Ok((digest.finish().as_ref().to_vec(), theirs))
}

/// Bytes that look random (xorshift64*), so that nothing on the way can be lucky.
struct Generator(u64);

impl Generator {
    fn piece(&mut self, len: usize) -> Vec<u8> {
        let mut piece = Vec::with_capacity(len + 8);
        while piece.len() < len {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            piece.extend_from_slice(&self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        piece.truncate(len);
        piece
    }
}

fn table(
    size: u64,
    handshake: Duration,
    took: Duration,
    rtt: Duration,
    sent: &Sent,
    digest: &[u8],
    matches: bool,
) -> Result {
    let seconds = took.as_secs_f64().max(1e-9);
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let verdict = if matches { "matches" } else { "DOES NOT MATCH" };
    let rows = [
        ("data", format!("{} MB", size / 1_000_000)),
        ("handshake", format!("{:.1} ms", handshake.as_secs_f64() * 1e3)),
        ("transfer", format!("{seconds:.2} s")),
        ("goodput", format!("{:.2} Gbit/s", size as f64 * 8.0 / seconds / 1e9)),
        ("round trip", format!("{:.2} ms", rtt.as_secs_f64() * 1e3)),
        ("datagrams", format!("{} of up to {} bytes", sent.datagrams, sent.mtu)),
        ("lost packets", sent.lost_packets.to_string()),
        ("SHA-256", format!("{hex}… {verdict}")),
    ];
    rows.iter().try_for_each(|(name, value)| exit::say(format_args!("{name:<14}{value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_repeat() {
        let mut generator = Generator(1);
        let (a, b) = (generator.piece(1_001), generator.piece(1_001));
        assert_eq!((a.len(), b.len()), (1_001, 1_001));
        assert_ne!(a, b);
    }
}
