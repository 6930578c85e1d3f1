//! The two halves of a stream as applications use them: one that writes known content, one that reads.

use anabranch_transport::stream::{ReadError, Streams, WriteError};
use anabranch_wire::StreamId;

use super::Pattern;
use crate::random::Rng;

/// Bytes given to the stream at once, at most.
const MAX_WRITE: u64 = 4096;

/// Way in which a half of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes and the end: acknowledged when sending, read when receiving.
    Complete,
    /// Reset by the sender with this code.
    Reset(u64),
    /// Stopped by the receiver with this code.
    Stopped(u64),
}

/// Writes a head and then bytes of a pattern to a stream.
#[derive(Debug)]
pub struct Sender {
    id: StreamId,
    head: Vec<u8>,
    pattern: Pattern,
    length: u64,
    written: u64,
    /// Reset the stream with a code once this many bytes are written, head included.
    reset: Option<(u64, u64)>,
    /// Set when the stream has been finished or reset.
    closed: bool,
    /// Set once nothing more is to be done or to be waited for.
    pub end: Option<End>,
}

impl Sender {
    /// Creates a half that writes `head` and `length` bytes of `pattern`. With `reset`, a byte count and a
    /// code, it does not finish the stream but resets it after that many bytes.
    pub fn new(
        id: StreamId,
        head: Vec<u8>,
        pattern: Pattern,
        length: u64,
        reset: Option<(u64, u64)>,
    ) -> Self {
        Self { id, head, pattern, length, written: 0, reset, closed: false, end: None }
    }

    /// Writes as much as the stream takes, then finishes or resets it.
    pub fn pump(&mut self, streams: &mut Streams) -> Result<(), String> {
        let mut buffer = [0; MAX_WRITE as usize];
        while self.end.is_none() && !self.closed {
            if self.written == self.last() {
                self.close(streams);
                break;
            }
            // Uneven pieces, so that boundaries of writes, packets and chunks fall anywhere.
            let piece = (1 + self.written * 31 % MAX_WRITE).min(self.last() - self.written);
            let piece = &mut buffer[..piece as usize];
            self.content(piece);
            match streams.write(self.id, piece) {
                Ok(0) => return Err(format!("stream {}: wrote nothing", self.id)),
                Ok(n) => self.written += n as u64,
                Err(WriteError::Blocked) => return Ok(()),
                Err(WriteError::Stopped(code)) => self.end = Some(End::Stopped(code)),
                Err(WriteError::Closed) => return Err(format!("stream {}: closed while writing", self.id)),
            }
        }
        Ok(())
    }

    /// Takes the peer's acknowledgment of all data.
    pub fn on_finished(&mut self) -> Result<(), String> {
        if !self.closed || self.reset.is_some() {
            return Err(format!("stream {}: finished after {} bytes", self.id, self.written));
        }
        self.end.get_or_insert(End::Complete);
        Ok(())
    }

    /// Takes the peer's STOP_SENDING.
    pub fn on_stopped(&mut self, code: u64) {
        self.end.get_or_insert(End::Stopped(code));
    }

    /// Returns the number of bytes that will be written.
    fn last(&self) -> u64 {
        let all = self.head.len() as u64 + self.length;
        self.reset.map_or(all, |(after, _)| after.min(all))
    }

    fn close(&mut self, streams: &mut Streams) {
        self.closed = true;
        let closed = match self.reset {
            Some((_, code)) => {
                self.end = Some(End::Reset(code));
                streams.reset(self.id, code)
            }
            None => streams.finish(self.id),
        };
        if closed.is_err() {
            // Stopped in the meantime, which an event is about to tell.
            self.end.get_or_insert(End::Stopped(streams.stopped(self.id).unwrap_or(u64::MAX)));
        }
    }

    fn content(&self, piece: &mut [u8]) {
        let head = self.head.get(self.written as usize..).unwrap_or_default();
        let n = head.len().min(piece.len());
        piece[..n].copy_from_slice(&head[..n]);
        let offset = (self.written + n as u64).saturating_sub(self.head.len() as u64);
        self.pattern.fill(offset, &mut piece[n..]);
    }
}

/// Reads a stream.
#[derive(Debug)]
pub struct Receiver {
    id: StreamId,
    /// Bytes read so far.
    pub read: u64,
    /// Stop the stream with a code once this many bytes are read.
    pub stop: Option<(u64, u64)>,
    /// Set once nothing more will be read.
    pub end: Option<End>,
}

impl Receiver {
    /// Creates a half that reads everything, or stops the stream with a code after so many bytes.
    pub fn new(id: StreamId, stop: Option<(u64, u64)>) -> Self {
        Self { id, read: 0, stop, end: None }
    }

    /// Reads what there is, in pieces of random size and by both ways of reading, and gives it to `sink` with
    /// its offset.
    pub fn pump(
        &mut self,
        streams: &mut Streams,
        rng: &mut Rng,
        mut sink: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        while self.end.is_none() {
            if let Some((_, code)) = self.stop.filter(|(after, _)| self.read >= *after) {
                self.end = Some(End::Stopped(code));
                // The stream may be over already; either way nobody reads on.
                let _ = streams.stop(self.id, code);
                break;
            }
            match self.read_piece(streams, rng, &mut sink) {
                Ok(result) => result?,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Finished) => self.end = Some(End::Complete),
                Err(ReadError::Reset(code)) => self.end = Some(End::Reset(code)),
                Err(error @ (ReadError::Closed | ReadError::Unordered)) => {
                    return Err(format!("stream {}: {error}", self.id));
                }
            }
        }
        Ok(())
    }

    fn read_piece(
        &mut self,
        streams: &mut Streams,
        rng: &mut Rng,
        sink: &mut impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<Result<(), String>, ReadError> {
        let result;
        let n = if rng.chance(0.5) {
            let data = streams.take(self.id, rng.between(1, 10_000) as usize)?;
            result = sink(self.read, &data);
            data.len()
        } else {
            let data = streams.peek(self.id)?;
            let n = rng.between(1, data.len() as u64) as usize;
            result = sink(self.read, &data[..n]);
            streams.consume(self.id, n).map_err(|_| ReadError::Closed)?;
            n
        };
        self.read += n as u64;
        Ok(if n == 0 { Err(format!("stream {}: read nothing", self.id)) } else { result })
    }
}
