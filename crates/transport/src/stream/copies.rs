//! Copies, on one path, of frames that are in flight on another.

use anabranch_wire::{Frame, StreamId, Writer, max_stream_len, write_stream};

use super::Streams;
use super::outgoing::MIN_SEGMENT;
use super::send::Segment;
use crate::schedule::Carrier;
use crate::token::{Token, Tokens};

impl Streams {
    /// Writes another copy of the frame of `token`, as far as its content is still useful. Returns a token
    /// for the part that did not fit.
    ///
    /// Stream bytes that the peer has acknowledged meanwhile are left out. So are bytes that are known to be
    /// lost, because they wait to be sent again anyway. Limits have their newest value.
    pub(crate) fn write_copy(
        &mut self,
        token: Token,
        carrier: &Carrier,
        w: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) -> Option<Token> {
        let frame = match token {
            Token::Stream { id, offset, len, fin } => {
                let segment = Segment { range: offset..offset + u64::from(len), fin };
                return self.write_data_copy(id, &segment, carrier, w, tokens);
            }
            Token::MaxData => Frame::MaxData(self.flow.receive_credit.limit()),
            Token::MaxStreamData(id) => {
                let key = self.table.find(id, self.now)?;
                let half = self.table.stream(key).receive.as_ref()?;
                Frame::MaxStreamData { id, maximum: half.credit.limit() }
            }
            _ => return None,
        };
        match w.frame(&frame) {
            // If the original frame is lost, the limit is sent again. This copy is recorded as a PING, so
            // that it is not copied in turn.
            Ok(()) => tokens.push(Token::Ping),
            Err(_) => return Some(token),
        }
        None
    }

    fn write_data_copy(
        &mut self,
        id: StreamId,
        &Segment { ref range, fin }: &Segment,
        carrier: &Carrier,
        w: &mut Writer<'_>,
        tokens: &mut Tokens,
    ) -> Option<Token> {
        let key = self.table.find(id, self.now)?;
        let send = self.table.stream(key).send.as_mut().filter(|send| send.state.may_send())?;
        if !carrier.carries(send.route) {
            return None;
        }
        let (mut at, end) = (range.start, range.end);
        loop {
            let gap = match send.buffer.unacked(at..end) {
                Some(gap) => gap,
                // A FIN without data is repeated as well.
                None if fin && range.is_empty() => end..end,
                None => return None,
            };
            let room = max_stream_len(w.remaining(), id, gap.start) as u64;
            let wanted = gap.end - gap.start;
            let left = Token::Stream { id, offset: gap.start, len: (end - gap.start) as u32, fin };
            if room < wanted.min(MIN_SEGMENT) {
                return Some(left);
            }
            let taken = wanted.min(room);
            let ends = fin && gap.start + taken == end;
            let fill = |to: &mut [u8]| send.buffer.copy_to(gap.start, to);
            if write_stream(w, id, gap.start, ends, taken as usize, fill).is_err() {
                return Some(left);
            }
            tokens.push(Token::StreamCopy { id, offset: gap.start, len: taken as u32, fin: ends });
            at = gap.start + taken;
            if at == end {
                return None;
            }
        }
    }

    /// Returns whether the application would write more to the stream if the peer's limits or the send buffer
    /// permitted it. In that case, the acknowledgment of the oldest data lets the stream continue.
    pub(crate) fn is_held_back(&mut self, id: StreamId) -> bool {
        let Some(key) = self.table.find(id, self.now) else { return false };
        let send = self.table.stream(key).send.as_ref();
        send.is_some_and(|send| send.is_open() && (send.wants_room || send.credit.available() == 0))
    }

    /// Returns whether the application would write more to the next stream in turn ([`Self::is_held_back`]).
    pub(crate) fn has_more_to_come(&mut self) -> bool {
        self.ready.next(None).is_some_and(|place| self.is_held_back(place.id()))
    }

    /// Returns the number of bytes from the oldest unacknowledged one to the end of the peer's flow control
    /// credit, for the connection or for the next stream in turn, whichever is less.
    pub(crate) fn send_window(&mut self) -> u64 {
        let acked = self.flow.send_credit.used().saturating_sub(self.flow.buffered);
        let connection = self.flow.send_credit.limit().saturating_sub(acked);
        let place = self.ready.next(None);
        let Some(key) = place.and_then(|place| self.table.find(place.id(), self.now)) else {
            return connection;
        };
        let send = self.table.stream(key).send.as_ref();
        let stream = send.map_or(u64::MAX, |send| send.credit.limit().saturating_sub(send.buffer.base()));
        connection.min(stream)
    }

    /// Returns the number of bytes that the application may write under the peer's limit for the connection.
    pub(crate) fn credit(&self) -> u64 {
        self.flow.send_credit.available()
    }
}
