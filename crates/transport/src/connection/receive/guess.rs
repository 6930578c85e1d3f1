//! 1-RTT packets that most likely continue a train, decrypted directly into the receive buffer
//! (`docs/vreverso.md`, "Trains" and "Version 1").
//!
//! In a train, the next packet most likely contains nothing but the stream's next data, and in VReverso its
//! header says so. It is decrypted so that this data lies at its place in the buffer; the fields of its STREAM
//! frame, if they precede the data, overwrite received bytes, which are restored at once. If the packet
//! contains anything else, it is processed like any other packet: in VReverso with its data where it lies,
//! otherwise after its plaintext has been copied to the datagram.

use anabranch_tls::TAG_LEN;
use anabranch_wire::{Frames, Time};

use super::envelope::Stop;
use super::short::Short;
use super::train::Train;
use crate::connection::connection::Connection;

/// Result of decrypting a packet on a guess.
pub(in crate::connection) enum Guessed {
    /// No packet was decrypted, because no guess is possible or the buffer has no room for it.
    Nothing,
    /// The packet contains only stream data that continues the train: this number of bytes, which are at
    /// their place in the stream's buffer.
    Data(usize),
    /// The packet contains something else. Its plaintext has this length and is in the place that its header
    /// names.
    Placed(usize),
    /// The packet contains something else. Its plaintext has this length and is in the datagram, behind the
    /// header.
    InPlace(usize),
}

#[cfg(test)]
thread_local! {
    /// Numbers of packets that were decrypted on a guess: right, wrong and not authentic.
    pub(crate) static GUESSES: std::cell::Cell<[u64; 3]> = const { std::cell::Cell::new([0; 3]) };
}

/// Counts a guess in tests.
#[inline(always)]
fn count(result: usize) {
    #[cfg(not(test))]
    let _ = result;
    #[cfg(test)]
    GUESSES.with(|guesses| {
        let mut counts = guesses.get();
        counts[result] += 1;
        guesses.set(counts);
    });
}

impl Connection {
    /// Decrypts a packet into the buffer of the train's stream.
    #[inline(always)]
    pub(in crate::connection) fn open_guessed(
        &mut self,
        now: Time,
        short: &Short<'_>,
        train: &Train,
        packet: &mut [u8],
    ) -> Result<Guessed, Stop> {
        let header_len = short.unmasked.header_len;
        let len = packet.len().saturating_sub(header_len + TAG_LEN);
        let Some(data) = train.data() else { return Ok(Guessed::Nothing) };
        let named = short.unmasked.placement.as_ref();
        let Some(place) = self.streams.next_place(data, named, len) else { return Ok(Guessed::Nothing) };
        let key = self.keys.one_rtt.as_ref().and_then(|keys| keys.opener(short.phase));
        let Some(key) = key else { return Ok(Guessed::Nothing) };
        let saved = place.save();
        let nonce_path = self.paths.numbering.nonce_path(short.path);
        let (header, body) = packet.split_at_mut(header_len);
        if key.open_into(nonce_path, short.number, header, body, place.window).is_err() {
            place.restore(&saved);
            count(2);
            return Err(self.on_unopened());
        }
        let mut frames = Frames::new(place.window, self.format.direction);
        let only = frames.next_stream().filter(|_| frames.is_over());
        let guessed = match only {
            Some(only) if data.is_next(&only) && place.fits(&only) => Guessed::Data(only.data.len()),
            _ if named.is_some() => Guessed::Placed(len),
            _ => {
                body[..len].copy_from_slice(place.window);
                Guessed::InPlace(len)
            }
        };
        place.restore(&saved);
        if matches!(guessed, Guessed::InPlace(_)) {
            self.streams.guess_no_more();
        }
        count(usize::from(!matches!(guessed, Guessed::Data(_))));
        self.on_opened(now, short);
        Ok(guessed)
    }
}
