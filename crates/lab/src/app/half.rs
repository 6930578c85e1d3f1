//! The two halves of a stream in applications: one writes known content, the other reads it.

use anabranch_transport::stream::{ReadError, Streams, WriteError};
use anabranch_wire::{StreamId, VarInt};

use super::Pattern;
use crate::random::Rng;

/// Maximum number of bytes written to the stream at once.
const MAX_WRITE: u64 = 4096;

/// Reason that a half of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes and the end of the stream were acknowledged (sender) or read (receiver).
    Complete,
    /// The sender reset the stream with this code.
    Reset(VarInt),
    /// The receiver stopped the stream with this code.
    Stopped(VarInt),
}

/// Sending half that writes a head and then bytes of a pattern.
#[derive(Debug)]
pub struct Sender {
    id: StreamId,
    head: Vec<u8>,
    pattern: Pattern,
    length: u64,
    written: u64,
    /// Number of written bytes, including the head, after which the stream is reset, and the error code.
    reset: Option<(u64, VarInt)>,
    /// `true` once the stream has been finished or reset.
    closed: bool,
    /// Reason for the end; set once the half has nothing left to do or to wait for.
    pub end: Option<End>,
}

impl Sender {
    /// Creates a half that writes `head` and `length` bytes of `pattern`. With `reset`, a number of bytes and
    /// an error code, it resets the stream after that many bytes instead of finishing it.
    pub fn new(
        id: StreamId,
        head: Vec<u8>,
        pattern: Pattern,
        length: u64,
        reset: Option<(u64, VarInt)>,
    ) -> Self {
        Self { id, head, pattern, length, written: 0, reset, closed: false, end: None }
    }

    /// Writes as many bytes as the stream accepts, then finishes or resets the stream.
    pub fn pump(&mut self, streams: &mut Streams) -> Result<(), String> {
        let mut buffer = [0; MAX_WRITE as usize];
        while self.end.is_none() && !self.closed {
            if self.written == self.last() {
                self.close(streams);
                break;
            }
            // The pieces have irregular sizes, so that the boundaries of writes, packets and chunks rarely
            // coincide.
            let piece = (1 + self.written * 31 % MAX_WRITE).min(self.last() - self.written);
            let piece = &mut buffer[..piece as usize];
            self.content(piece);
            match streams.write(self.id, piece) {
                Ok(0) => return Err(format!("stream {}: wrote nothing", self.id)),
                Ok(n) => self.written += n as u64,
                Err(WriteError::Blocked) => return Ok(()),
                Err(WriteError::Stopped(code)) => self.end = Some(End::Stopped(code)),
                Err(error) => return Err(format!("stream {}: {error}", self.id)),
            }
        }
        Ok(())
    }

    /// Handles the acknowledgment of all data by the peer.
    pub fn on_finished(&mut self) -> Result<(), String> {
        if !self.closed || self.reset.is_some() {
            return Err(format!("stream {}: finished after {} bytes", self.id, self.written));
        }
        self.end.get_or_insert(End::Complete);
        Ok(())
    }

    /// Handles the peer's STOP_SENDING.
    pub fn on_stopped(&mut self, code: VarInt) {
        self.end.get_or_insert(End::Stopped(code));
    }

    /// Returns the total number of bytes that will be written.
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
            // The peer has stopped the stream in the meantime; an event will report it.
            self.end.get_or_insert(End::Stopped(streams.stopped(self.id).unwrap_or(VarInt::MAX)));
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

/// Receiving half of a stream.
#[derive(Debug)]
pub struct Receiver {
    id: StreamId,
    /// Bytes read so far.
    pub read: u64,
    /// Number of read bytes after which the stream is stopped, and the error code.
    pub stop: Option<(u64, VarInt)>,
    /// Reason for the end; set once no more bytes will be read.
    pub end: Option<End>,
}

impl Receiver {
    /// Creates a half that reads the whole stream. With `stop`, a number of bytes and an error code, it stops
    /// the stream after that many bytes.
    pub fn new(id: StreamId, stop: Option<(u64, VarInt)>) -> Self {
        Self { id, read: 0, stop, end: None }
    }

    /// Reads all available bytes, in pieces of random size and with both read methods, and passes each piece
    /// with its offset to `sink`.
    pub fn pump(
        &mut self,
        streams: &mut Streams,
        rng: &mut Rng,
        mut sink: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        while self.end.is_none() {
            if let Some((_, code)) = self.stop.filter(|(after, _)| self.read >= *after) {
                self.end = Some(End::Stopped(code));
                // Errors do not matter: the stream may have ended already, and the receiver reads no further.
                let _ = streams.stop(self.id, code);
                break;
            }
            match self.read_piece(streams, rng, &mut sink) {
                Ok(result) => result?,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Finished) => self.end = Some(End::Complete),
                Err(ReadError::Reset(code)) => self.end = Some(End::Reset(code)),
                Err(error) => {
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
