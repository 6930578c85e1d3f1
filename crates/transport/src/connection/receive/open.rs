//! Decryption of 1-RTT packets, either in place or into the buffer of the stream that the header names (RFC
//! 9001 §5.3, §6).

use anabranch_wire::{PathId, Time};

use super::direct::Direct;
use super::envelope::Stop;
use super::short::Short;
use crate::connection::connection::Connection;
use crate::connection::parts::{OneRtt, Phase};
use crate::trace::{DropReason, TraceEvent};

/// Decrypted, authentic packet that has not been applied yet.
pub(in crate::connection) enum Opened<'p> {
    /// Plaintext in place.
    InPlace(&'p [u8]),
    /// Plaintext whose stream data is in the buffer of the stream.
    Direct(Direct),
}

impl Connection {
    /// Decrypts a packet.
    #[inline(always)]
    pub(in crate::connection) fn open<'p>(
        &mut self,
        now: Time,
        short: &Short<'_>,
        packet: &'p mut [u8],
    ) -> Result<Opened<'p>, Stop> {
        if let Some(named) = &short.unmasked.placement
            && let Some(direct) = self.open_direct(now, short, named, packet)
        {
            return direct.map(Opened::Direct);
        }
        self.open_short(now, short, packet).map(Opened::InPlace)
    }

    /// Decrypts a packet in place and returns its plaintext.
    pub(in crate::connection) fn open_short<'p>(
        &mut self,
        now: Time,
        short: &Short<'_>,
        packet: &'p mut [u8],
    ) -> Result<&'p [u8], Stop> {
        let &Short { path, number, unmasked, phase, .. } = short;
        let key = self.keys.one_rtt.as_ref().and_then(|keys| keys.opener(phase));
        let key = key.ok_or(Stop::Drop(DropReason::KeyUnavailable))?;
        let nonce_path = self.paths.numbering.nonce_path(path);
        match key.open(nonce_path, number, unmasked.header_len, packet) {
            Ok(len) => {
                self.on_opened(now, short);
                Ok(&packet[unmasked.header_len..][..len])
            }
            Err(_) => Err(self.on_unopened()),
        }
    }

    /// Updates the key phase after a packet was decrypted.
    #[inline(always)]
    pub(in crate::connection) fn on_opened(&mut self, now: Time, short: &Short<'_>) {
        let followed = self.keys.one_rtt.as_ref().is_some_and(OneRtt::is_followed);
        if short.phase != Phase::Current || short.is_older || !followed {
            self.note_phase(now, short.phase, short.path, short.number);
        }
    }

    fn note_phase(&mut self, now: Time, phase: Phase, path: PathId, number: u64) {
        match phase {
            Phase::Previous => return,
            Phase::Next => self.on_peer_key_update(now),
            Phase::Current => {
                if let Some(keys) = &mut self.keys.one_rtt {
                    keys.on_peer_followed(now);
                }
            }
        }
        if let Some(path) = self.paths.list.get_mut(path) {
            self.paths.numbering.note_phase(&mut path.received, number);
        }
    }

    fn on_peer_key_update(&mut self, now: Time) {
        let retain = self.paths.list.max_pto() * 3;
        let Some(keys) = &mut self.keys.one_rtt else { return };
        keys.update(now, self.format, true, retain);
        let generation = keys.generation;
        self.paths.begin_phase();
        self.trace(now, &TraceEvent::KeyUpdated { generation, remote: true });
    }
}
