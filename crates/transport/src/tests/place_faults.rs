//! Faults of the reference implementation listed in `docs/vreverso.md`, reproduced with hand-made packets:
//! the data read is always the data sent.

use std::ops::Range;
use std::time::Duration;

use anabranch_wire::{
    Announced, Dir, Frame, PacketKind, Side, Stream, StreamId, TransportErrorCode as Code, VarInt, Version,
};
use bytes::Bytes;

use super::injector::encode;
use super::pair::{Pair, client_addr, over, pattern, server_addr};
use super::paths::{address, open_and_wait, still_works};
use super::place::{connected, hostile, received};
use crate::connection::Forged;
use crate::stream::{ReadError, ReceivedBytes};
use crate::{ConnectionError, Datagram, Event, FourTuple, MultipathConfig, Numbering, NumberingChoice};

/// Frame beside the data, long enough to overwrite other data if it were written to the wrong place.
const TOKEN: Frame<'_> = Frame::NewToken { token: &[0xee; 60] };

/// Returns the stream's content at these offsets.
fn data(range: Range<u64>) -> Vec<u8> {
    range.map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Download with hand-made packets. The client has received 100 bytes, so the stream exists.
struct Download {
    pair: Pair,
    id: StreamId,
    /// Number of bytes that the client has read.
    read: u64,
}

impl Download {
    fn begun(mut pair: Pair) -> Self {
        let id = pair.server().streams().open(Dir::Uni).unwrap();
        let mut download = Self { pair, id, read: 0 };
        download.bring(0..100, &[]);
        download
    }

    /// Returns a packet with this part of the stream. Its header contains `announced`, or the true
    /// description.
    fn packet(&mut self, range: Range<u64>, others: &[Frame<'_>], announced: Option<Announced>) -> Vec<u8> {
        let (offset, bytes) = (range.start, data(range));
        let mut frames = vec![Frame::Stream(Stream { id: self.id, offset, fin: false, data: &bytes })];
        frames.extend(others.iter().cloned());
        let payload = encode(&frames);
        let forged = Forged { skip: 0, announced, ..Forged::new(PacketKind::OneRtt, &payload) };
        let now = self.pair.now;
        self.pair.server().forge(now, &forged)
    }

    fn arrive(&mut self, packet: &[u8]) {
        let mut payload = packet.to_vec();
        let tuple = FourTuple { local: client_addr(), remote: server_addr() };
        let now = self.pair.now;
        self.pair.client.handle_batch(now, &mut [Datagram { tuple, ecn: None, payload: &mut payload }]);
    }

    /// Creates a packet and delivers it.
    fn bring(&mut self, range: Range<u64>, others: &[Frame<'_>]) {
        let packet = self.packet(range, others, None);
        self.arrive(&packet);
    }

    fn received(&mut self) -> ReceivedBytes {
        received(&mut self.pair, Side::Client)
    }

    /// Returns the number of times that the client has processed [`TOKEN`].
    fn tokens(&mut self) -> usize {
        self.pair.drain();
        let is_token = |event: &&Event| matches!(event, Event::NewToken(token) if token[..] == [0xee; 60]);
        self.pair.client_events.iter().filter(is_token).count()
    }

    /// Reads the stream, and checks that exactly the bytes below `end` are available.
    fn check(&mut self, end: u64) {
        let streams = self.pair.client().streams();
        while let Ok(bytes) = streams.peek(self.id) {
            let len = bytes.len() as u64;
            assert!(bytes == data(self.read..self.read + len), "bytes after {} changed", self.read);
            self.read += len;
            streams.consume(self.id, len as usize).unwrap();
        }
        assert_eq!(self.read, end);
        assert_eq!(streams.peek(self.id), Err(ReadError::Blocked));
        assert!(self.pair.client().is_confirmed());
    }
}

fn download() -> Download {
    Download::begun(connected())
}

#[test]
fn copies_of_a_packet_out_of_order_with_any_bit_flipped() {
    over(Version::REVERSO, || {
        let mut download = download();
        let late = download.packet(100..1_200, &[TOKEN], None);
        download.bring(1_200..2_300, &[]);
        let bits = late.len() * 8;
        for bit in 0..bits {
            let mut forged = late.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            download.arrive(&forged);
        }
        // All forgeries fail to decrypt, except those with a changed connection ID or header form, which are
        // dropped earlier.
        assert!(download.pair.client().stats().undecryptable as usize > bits - 100);
        let before = download.received();
        assert!(before.restored > 60 * (bits as u64 - 400), "the forgeries had their places: {before:?}");
        assert_eq!((before.placed, before.copied), (1_100, 100), "none of them counts");
        download.arrive(&late);
        assert_eq!(download.received().placed, 2_200);
        download.check(2_300);
    });
}

/// Forged packets do not keep the memory that is prepared for the next chunk. The first authentic packet that
/// needs this memory gets it.
#[test]
fn forgeries_all_over_the_window_keep_no_memory() {
    over(Version::REVERSO, || {
        let mut download = download();
        for offset in (10_000..1_000_000).step_by(20_000) {
            let mut forged = download.packet(offset..offset + 1_000, &[], None);
            *forged.last_mut().unwrap() ^= 1;
            download.arrive(&forged);
        }
        for start in (100..10_000).step_by(900) {
            download.bring(start..start + 900, &[]);
            download.check(start + 900);
        }
        assert_eq!(download.received(), ReceivedBytes { placed: 9_900, copied: 100, restored: 0 });
    });
}

#[test]
fn duplicates_and_repetitions_that_are_cut_anew() {
    over(Version::REVERSO, || {
        let mut download = download();
        download.bring(2_000..3_000, &[]);
        let late = download.packet(1_000..2_000, &[TOKEN], None);
        let early = download.packet(100..1_000, &[TOKEN], None);
        for packet in [&late, &early] {
            download.arrive(packet);
            let once = download.received();
            download.arrive(packet);
            let twice = download.received();
            assert_eq!((once.placed, once.copied), (twice.placed, twice.copied), "a duplicate means nothing");
        }
        // Short packets are placed between received data, and their other frames overwrite more of it.
        for range in [100..700, 700..1_200, 900..1_900, 950..1_000, 1_900..2_000, 1_990..2_010, 2_950..3_000]
        {
            download.bring(range, &[TOKEN]);
        }
        assert!(download.received().restored > 400);
        download.check(3_000);
        // Packets may also lie below the data that has been read, wholly or partly.
        download.bring(2_900..3_100, &[TOKEN]);
        download.bring(50..100, &[TOKEN]);
        download.check(3_100);
        assert_eq!(download.tokens(), 2 + 7 + 2, "frames beside old data count, those of duplicates do not");
    });
}

#[test]
fn all_that_is_new_of_data_that_overlaps_is_kept() {
    over(Version::REVERSO, || {
        let mut download = download();
        download.bring(300..400, &[]);
        download.bring(50..250, &[TOKEN]);
        download.check(250);
        download.bring(200..1_500, &[TOKEN]);
        download.bring(1_600..2_600, &[]);
        download.bring(1_000..2_000, &[TOKEN]);
        download.check(2_600);
        // One packet spans two received ranges.
        download.bring(3_000..3_100, &[]);
        download.bring(3_500..3_600, &[]);
        download.bring(2_600..3_800, &[TOKEN]);
        download.check(3_800);
    });
}

#[test]
fn an_offset_that_was_cut_too_short_leads_nowhere_else() {
    over(Version::REVERSO, || {
        let mut download = download();
        let short = |id, offset| Some(Announced { stream: id, offset, distance: 0 });
        // If offset 100 is expected, the truncated offset of 70,000 is decoded as 4,464. Part of the data
        // there has been received.
        download.bring(4_400..4_500, &[]);
        let before = download.received();
        let announced = short(download.id, 70_000);
        let packet = download.packet(70_000..71_000, &[TOKEN], announced);
        download.arrive(&packet);
        let after = download.received();
        assert_eq!((after.restored - before.restored, after.copied - before.copied), (36, 1_000));
        for start in (100..70_000).step_by(1_000) {
            download.bring(start..(start + 1_000).min(70_000), &[]);
        }
        download.check(71_000);
        // If offset 71,000 is expected, the truncated offset of 36,000 is decoded as 101,536, as in a
        // retransmission of data whose ACK was lost.
        download.bring(101_500..101_600, &[]);
        let before = download.received();
        let announced = short(download.id, 36_000);
        let packet = download.packet(36_000..37_000, &[TOKEN], announced);
        download.arrive(&packet);
        assert_eq!(download.received().restored - before.restored, 64);
        assert_eq!(download.tokens(), 2);
        for start in (71_000..103_000).step_by(1_000) {
            download.bring(start..start + 1_000, &[]);
        }
        download.check(103_000);
    });
}

#[test]
fn a_full_buffer_takes_all_that_was_allowed_and_no_more() {
    over(Version::REVERSO, || {
        const WINDOW: u64 = 20_000;
        let begun = || {
            let mut pair = Pair::with_transport(|transport| transport.streams.stream_window = WINDOW);
            pair.connect();
            pair.run_until_quiet();
            let mut download = Download::begun(pair);
            // The application does not read, and the packets arrive in reverse order.
            for start in (100..WINDOW).step_by(1_000).collect::<Vec<_>>().into_iter().rev() {
                download.bring(start..(start + 1_000).min(WINDOW), &[TOKEN]);
            }
            download
        };
        begun().check(WINDOW);
        let mut full = begun();
        full.bring(WINDOW - 50..WINDOW + 1, &[]);
        full.pair.run_until_quiet();
        assert_eq!(full.pair.code_seen_by(Side::Server), Some(Code::FLOW_CONTROL_ERROR));
    });
}

/// Data that cannot be stored is not acknowledged: the connection closes.
#[test]
fn more_holes_than_can_be_kept_are_the_end() {
    over(Version::REVERSO, || {
        let mut download = download();
        let mut offset = 200;
        download.pair.network = Some(Box::new(|_, _| Vec::new()));
        while download.pair.closed(Side::Client).is_none() {
            download.bring(offset..offset + 1, &[]);
            offset += 2;
            assert!(offset < 20_000, "no end in sight");
            download.pair.drain();
        }
        let Some(ConnectionError::Transport(error)) = download.pair.closed(Side::Client) else { panic!() };
        assert_eq!((error.code, offset), (Code::INTERNAL_ERROR, 200 + 2 * 1_025));
    });
}

/// A packet's other frames are processed after its data, even if they reset its stream.
#[test]
fn a_reset_beside_the_data_it_takes_back() {
    over(Version::REVERSO, || {
        let mut download = download();
        let id = download.id;
        download
            .bring(100..1_200, &[Frame::ResetStream { id, code: VarInt::from_u32(7), final_size: 1_200 }]);
        assert_eq!(download.received().placed, 1_100);
        assert_eq!(download.pair.client().streams().peek(id), Err(ReadError::Reset(VarInt::from_u32(7))));
        download.bring(1_100..1_200, &[TOKEN]);
        still_works(&mut download.pair);
    });
}

/// Initial and Handshake packets must not carry stream data: their keys are public, or belong to a peer that
/// is not authenticated yet.
#[test]
fn packets_of_the_handshake_reach_no_stream() {
    over(Version::REVERSO, || {
        for kind in [PacketKind::Initial, PacketKind::Handshake] {
            for from in [Side::Client, Side::Server] {
                let mut pair = Pair::new();
                pair.advance_to(kind, from);
                let id = StreamId::new(from, Dir::Bi, 1);
                let frame = Frame::Stream(Stream { id, offset: 0, fin: false, data: &[7; 1_000] });
                pair.inject(from, &Forged::new(kind, &encode(&[frame])));
                pair.run_for(Duration::from_millis(15));
                let Some(ConnectionError::Transport(error)) = pair.closed(from.peer()) else {
                    panic!("{kind:?} from the {from:?}");
                };
                assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
                assert_eq!(received(&mut pair, from.peer()), ReceivedBytes::default());
            }
        }
    });
}

#[test]
fn what_the_application_holds_stays_as_it_is() {
    over(Version::REVERSO, || {
        let mut pair = connected();
        pair.network = Some(hostile(42));
        let data = pattern(1_500_000);
        let id = pair.server().streams().open(Dir::Uni).unwrap();
        let (mut rest, mut held) = (Bytes::from(data.clone()), Vec::new());
        pair.run_until(Duration::from_secs(60), |pair| {
            while !rest.is_empty() && pair.server().streams().write_bytes(id, &mut rest).is_ok() {}
            while let Ok(bytes) = pair.client().streams().take(id, 5_000) {
                held.push(bytes);
            }
            held.iter().map(Bytes::len).sum::<usize>() == data.len()
        });
        assert!(held.concat() == data);
    });
}

#[test]
fn hostile_networks_over_one_to_four_paths() {
    over(Version::REVERSO, || {
        for numbering in [Numbering::Multiple, Numbering::Single] {
            for paths in 1..=4 {
                let mut pair = Pair::with_transport(|transport| {
                    let numbering = NumberingChoice::Only(numbering);
                    transport.multipath = Some(MultipathConfig { numbering, ..MultipathConfig::default() });
                });
                pair.connect();
                pair.run_until_quiet();
                for last in 1..paths {
                    open_and_wait(&mut pair, address(10 + last));
                }
                pair.network = Some(hostile(u64::from(paths)));
                for from in [Side::Server, Side::Client] {
                    let data = pattern(500_000);
                    assert!(pair.transfer(from, &data) == data, "{numbering:?}, {paths} paths");
                    let received = received(&mut pair, from.peer());
                    assert!(received.placed > 200_000 && received.restored > 0, "{received:?}");
                }
            }
        }
    });
}
