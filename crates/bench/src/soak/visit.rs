//! Use of one connection: streams that are read to the end, reset, stopped or dropped, messages, and paths.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch::{Connection, PathInfo, PathState, VarInt};
use anabranch_lab::random::Rng;
use bytes::Bytes;

use super::place::Place;
use super::server::MAX_MESSAGE;
use crate::Error;

/// Last bytes of the addresses of further paths. On Linux, all addresses of 127.0.0.0/8 belong to the loopback interface.
const LOCALS: RangeInclusive<u8> = 1..=8;
/// Number of paths with which the oldest is abandoned for each that opens.
const MANY: usize = 3;
/// Error code of abandoned paths and cancelled streams.
const CODE: VarInt = VarInt::from_u32(0x3e);
/// Maximum time for one action. Both ends and the link need a few milliseconds, unless a connection has just lost its path.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client's use of a connection.
pub(super) struct Visit<'a> {
    place: &'a Place,
    connection: &'a Connection,
}

impl<'a> Visit<'a> {
    pub(super) fn new(place: &'a Place, connection: &'a Connection) -> Self {
        Self { place, connection }
    }

    /// Opens a path from an address that no other path uses, and counts it. Before that, the oldest path is abandoned if there are many;
    /// after that, it may be.
    pub(super) async fn open_path(&self, opened: &AtomicU64, rng: &mut Rng) {
        let mut used = self.connection.paths();
        used.retain(|path| path.state != PathState::Abandoned);
        if used.len() >= MANY {
            self.abandon(&used);
        }
        let first = rng.between(u64::from(*LOCALS.start()), u64::from(*LOCALS.end())) as u8;
        let is_free = |local: &IpAddr| used.iter().all(|path| path.tuple.local.ip() != *local);
        let mut locals = (first..=*LOCALS.end()).chain(LOCALS).map(|last| IpAddr::from([127, 0, 0, last]));
        let Some(local) = locals.find(is_free) else { return };
        let opening = self.connection.open_path(local, None);
        let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, opening).await else { return };
        opened.fetch_add(1, Ordering::Relaxed);
        if used.len() < MANY && rng.chance(0.5) {
            self.abandon(&used);
        }
    }

    /// Abandons the first path of a list.
    fn abandon(&self, paths: &[PathInfo]) {
        if let Some(first) = paths.first() {
            // The last path cannot be abandoned.
            let _ = self.connection.abandon_path(first.id, CODE);
        }
    }

    /// Uses `count` streams one after the other, with messages in between.
    pub(super) async fn streams(&self, count: u64, rng: &mut Rng) {
        for _ in 0..count {
            // A connection that ended ends the visit, too.
            match tokio::time::timeout(PATIENCE, self.stream(rng)).await {
                Ok(Ok(())) => self.place.streams.fetch_add(1, Ordering::Relaxed),
                _ => return,
            };
            if rng.chance(0.3) {
                let _ = self.connection.send_datagram(Bytes::from(vec![1; rng.between(0, 1_000) as usize]));
            }
        }
    }

    /// Sends a message on a stream. Reads it back, or cancels the stream in one of several ways.
    async fn stream(&self, rng: &mut Rng) -> Result<(), Error> {
        let longest = if rng.chance(0.1) { MAX_MESSAGE as u64 } else { 20_000 };
        let message = vec![7; rng.between(1, longest) as usize];
        let (mut send, mut receive) = self.connection.open_bi().await?;
        let way = rng.below(8);
        if way < 4 {
            self.place.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        let sent = if way == 0 { message.len() / 2 } else { message.len() };
        send.write_all(message.get(..sent).unwrap_or_default()).await?;
        match way {
            0 => send.reset(CODE)?,
            1 => receive.stop(CODE)?,
            // Dropping a stream resets it, and stops the peer.
            2 => return Ok(()),
            _ => send.finish()?,
        }
        if way == 3 {
            return Ok(());
        }
        if way > 3 {
            let echo = receive.read_to_end(MAX_MESSAGE).await?;
            if echo != message {
                self.place.wrong.fetch_add(1, Ordering::Relaxed);
            }
            self.place.bytes.fetch_add(echo.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Ends a connection: closes it, or drops it, at once or after its last packets.
pub(super) async fn leave(connection: Connection, rng: &mut Rng) {
    if rng.chance(0.5) {
        tokio::time::sleep(Duration::from_millis(rng.between(0, 20))).await;
    }
    match rng.chance(0.5) {
        true => connection.close(VarInt::ZERO, b"done"),
        false => drop(connection),
    }
}
