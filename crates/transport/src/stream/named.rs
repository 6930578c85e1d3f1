//! STREAM frames that the packet's header names (stream hint), one for each packet. The frame must therefore
//! be chosen before the header is written.

use anabranch_wire::{Announced, StreamId, Writer, max_stream_len, write_stream};

use super::Streams;
use super::send::Segment;
use crate::schedule::{Carrier, Kinds};
use crate::token::{Token, Tokens};

/// Minimum space, in bytes, for which a STREAM frame is written: the longest frame header and a little data.
pub(crate) const MIN_NAMED_ROOM: usize = 64;

/// The STREAM frame of the next packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Description of the data in the packet's header.
    pub(crate) announced: Announced,
    segment: Segment,
    /// `true` if the frame repeats data that was sent before. The packet then contains nothing else, because
    /// some peers acknowledge such a packet without reading it if they already have the data.
    pub(crate) is_repeated: bool,
    /// `true` if another packet in flight carries the same data. Only the loss of that other packet causes a
    /// retransmission.
    is_copy: bool,
}

impl Streams {
    /// Returns the STREAM frame to send next with `carrier`, by priority, and lost data before new data.
    pub(crate) fn next_named(&mut self, carrier: &Carrier) -> Option<Named> {
        let mut passed = None;
        let mut spare = self.ready.spare();
        while let Some(place) = spare.or_else(|| self.ready.next(passed)) {
            let is_spare = spare.take().is_some();
            let id = place.id();
            let Some(key) = self.table.find(id, self.now) else {
                self.ready.remove(&place);
                continue;
            };
            let may_send = self.table.may_send_on(id);
            let Some(send) = &self.table.stream(key).send else {
                self.ready.remove(&place);
                continue;
            };
            if self.is_routed && !carrier.carries(send.route) {
                if !is_spare {
                    passed = Some(place);
                }
                continue;
            }
            let next = send.next_of(carrier.kinds);
            if next.is_none() && carrier.kinds != Kinds::ALL && send.next().is_some() {
                passed = Some(place);
                continue;
            }
            let mut is_held = false;
            if let Some(Segment { range, fin }) = next {
                let is_repeated = range.start < send.buffer.unsent();
                let credit = self.flow.send_credit.limit().saturating_sub(self.flow.sent);
                is_held = !may_send || !is_repeated && credit == 0 && !range.is_empty();
                if !is_held {
                    let end = match is_repeated {
                        // Lost ranges are sent in the same segments as before. Merged ranges might contain
                        // data that the receiver already has.
                        true => range.end.min(send.buffer.cut_after(range.start)),
                        false => range.end.min(range.start + credit),
                    };
                    let segment = Segment { range: range.start..end, fin: fin && end == range.end };
                    let announced = announce(id, range.start, send);
                    return Some(Named { announced, segment, is_repeated, is_copy: false });
                }
            }
            self.withdraw(key);
            if is_held {
                self.waiting.parked.push(id);
            } else {
                self.note_blocked(key);
            }
        }
        None
    }

    /// Returns a STREAM frame that repeats data of `token`: the first part that is neither acknowledged nor
    /// lost. Returns `None` if no such part exists, or if `carrier` may not carry data of this stream.
    pub(crate) fn named_copy(&mut self, token: &Token, carrier: &Carrier) -> Option<Named> {
        let Token::Stream { id, offset, len, fin } = *token else { return None };
        let key = self.table.find(id, self.now)?;
        let send = self.table.stream(key).send.as_ref().filter(|send| send.state.may_send())?;
        let end = offset + u64::from(len);
        let range = match send.buffer.unacked(offset..end) {
            Some(gap) => gap,
            // A FIN without data is repeated as well.
            None if fin && len == 0 => end..end,
            None => return None,
        };
        let announced = announce(id, range.start, send);
        let segment = Segment { fin: fin && range.end == end, range };
        carrier.carries(send.route).then_some(Named { announced, segment, is_repeated: true, is_copy: true })
    }

    /// Writes as much of the frame as fits. Returns a token for the rest of a copy.
    pub(crate) fn write_named(
        &mut self,
        named: &Named,
        w: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) -> Option<Token> {
        let id = named.announced.stream;
        let Segment { ref range, fin } = named.segment;
        let key = self.table.find(id, self.now)?;
        let send = self.table.stream(key).send.as_mut()?;
        let wanted = range.end - range.start;
        let taken = wanted.min(max_stream_len(w.remaining(), id, range.start) as u64);
        let segment = Segment { range: range.start..range.start + taken, fin: fin && taken == wanted };
        let fill = |to: &mut [u8]| send.buffer.copy_to(range.start, to);
        write_stream(w, id, range.start, segment.fin, taken as usize, fill).ok()?;
        let (offset, len) = (range.start, taken as u32);
        if named.is_copy {
            tokens.push(Token::StreamCopy { id, offset, len, fin: segment.fin });
            let rest = Token::Stream { id, offset: offset + taken, len: (wanted - taken) as u32, fin };
            return (taken < wanted).then_some(rest);
        }
        tokens.push(Token::Stream { id, offset, len, fin: segment.fin });
        send.buffer.cut_at(segment.range.end);
        self.flow.sent += send.on_sent(&segment);
        self.flow.pending -= taken;
        self.after_named(key);
        None
    }

    /// Moves a stream behind the others after its frame was written, or removes it from the queue if it has
    /// nothing left to send.
    fn after_named(&mut self, key: usize) {
        self.note_hunger(key);
        let Some(send) = self.table.stream(key).send.as_mut() else { return };
        if send.next().is_none() {
            self.withdraw(key);
            self.note_blocked(key);
        } else if let Some(place) = send.place {
            send.place = Some(self.ready.rotate(place));
        }
    }

    /// Removes a stream from the queue of streams with data to send.
    fn withdraw(&mut self, key: usize) {
        let send = self.table.stream(key).send.as_mut();
        if let Some(place) = send.and_then(|send| send.place.take()) {
            self.ready.remove(&place);
        }
    }
}

/// Returns the header's description of data at `offset`. Its `distance` is the distance to the acknowledged
/// or to the sent offset, whichever is larger: the peer has in-order data up to some offset between these
/// two.
pub(super) fn announce(stream: StreamId, offset: u64, send: &super::send::SendHalf) -> Announced {
    let buffer = &send.buffer;
    let distance = offset.abs_diff(buffer.base()).max(buffer.unsent().saturating_sub(offset));
    Announced { stream, offset, distance }
}
