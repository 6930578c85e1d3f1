//! The sending side of a stream: some bytes, then some of the static pattern, then the end.

use bytes::Bytes;
use peer_common::PATTERN;
use quiche::Error;

use crate::config::Connection;
use crate::stack;

/// Data that a stream still has to send.
#[derive(Default)]
pub struct Outgoing {
    /// Bytes of the head that have not been handed over.
    head: u64,
    /// Taken by the stack as far as it went.
    rest: Option<Bytes>,
    /// Number of bytes of the pattern that follow `rest`.
    pattern: u64,
    /// Set when the end of the stream follows the pattern; before that is known, the stream stays open.
    end: bool,
    done: bool,
}

impl Outgoing {
    /// `head`, then `pattern` bytes, then, if `end`, the end of the stream.
    pub fn new(head: Bytes, pattern: u64, end: bool) -> Self {
        Self {
            head: head.len() as u64,
            rest: Some(head).filter(|head| !head.is_empty()),
            pattern,
            end,
            done: false,
        }
    }

    /// Lets the stream end after what there is.
    pub fn end(&mut self) {
        self.end = true;
    }

    /// Returns whether everything, including the end, has been handed over.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Hands over as much as the connection takes; returns how many bytes of the pattern that was.
    pub fn push(&mut self, connection: &mut Connection, id: u64) -> Result<u64, Error> {
        let moved = self.hand_over(connection, id)?;
        let head = self.head.min(moved);
        self.head -= head;
        Ok(moved - head)
    }

    fn hand_over(&mut self, connection: &mut Connection, id: u64) -> Result<u64, Error> {
        let mut moved = 0;
        while !self.done && (self.end || self.pattern > 0 || self.rest.is_some()) {
            let piece = self.rest.take().unwrap_or_else(|| {
                let size = self.pattern.min(PATTERN.len() as u64);
                self.pattern -= size;
                Bytes::from_static(&PATTERN[..size as usize])
            });
            if self.pattern == 0 && !self.end {
                // The last piece waits for the end: an end by itself can get lost in quiceh's send queue.
                self.rest = Some(piece);
                return Ok(moved);
            }
            let end = self.pattern == 0;
            match stack::send(connection, id, piece.clone(), end) {
                Ok((n, None)) => {
                    moved += n as u64;
                    self.done = end;
                }
                Ok((n, rest)) => {
                    self.rest = rest;
                    return Ok(moved + n as u64);
                }
                Err(Error::Done | Error::StreamLimit) => {
                    self.rest = Some(piece);
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }
}
