//! Data of one stream that fills packet after packet.

use anabranch_wire::{Announced, StreamId, Writer, max_stream_len, write_stream};

use super::Streams;
use super::named::announce;
use super::send::{Segment, SendHalf};
use crate::token::{Token, Tokens};

/// Stream whose new data fills the next packets alone.
#[derive(Debug)]
pub(crate) struct StreamRun {
    key: usize,
    id: StreamId,
}

impl Streams {
    /// Returns the only stream with data to send; `None` if there are several, if data is to be sent again, or if any stream has ever had a
    /// route of its own.
    pub(crate) fn run(&mut self) -> Option<StreamRun> {
        let id = self.ready.only().filter(|_| !self.is_routed)?;
        let key = self.table.find(id, self.now).filter(|_| self.table.may_send_on(id))?;
        let send = self.table.stream(key).send.as_ref()?;
        send.next().filter(|next| next.range.start == send.buffer.unsent())?;
        Some(StreamRun { key, id })
    }

    /// Returns how many new bytes of the stream may be sent.
    pub(crate) fn left_of(&mut self, run: &StreamRun) -> u64 {
        let credit = self.flow.send_credit.limit().saturating_sub(self.flow.sent);
        self.half(run).map_or(0, |send| send.unsent_below_limit().min(credit))
    }

    /// Returns the header's description of the stream's next data.
    pub(crate) fn announce_run(&mut self, run: &StreamRun) -> Option<Announced> {
        self.half(run).map(|send| announce(run.id, send.buffer.unsent(), send))
    }

    /// Fills a packet with a STREAM frame. [`Self::left_of`] must be at least the packet's size.
    pub(crate) fn write_run(&mut self, run: &StreamRun, w: &mut Writer<'_>, tokens: &mut Tokens) {
        let (id, is_named) = (run.id, self.named);
        let Some(send) = self.table.stream(run.key).send.as_mut() else { return };
        let offset = send.buffer.unsent();
        let len = max_stream_len(w.remaining(), id, offset);
        let segment = Segment { range: offset..offset + len as u64, fin: false };
        let fill = |to: &mut [u8]| send.buffer.copy_to(offset, to);
        if len == 0 || write_stream(w, id, offset, false, len, fill).is_err() {
            return;
        }
        tokens.push(Token::Stream { id, offset, len: len as u32, fin: false });
        if is_named {
            send.buffer.cut_at(segment.range.end);
        }
        self.flow.sent += send.on_sent(&segment);
        self.flow.pending -= len as u64;
    }

    /// Ends a run in which packets were written.
    pub(crate) fn end_run(&mut self, run: &StreamRun) {
        self.note_hunger(run.key);
    }

    fn half(&mut self, run: &StreamRun) -> Option<&SendHalf> {
        self.table.stream(run.key).send.as_ref()
    }
}
