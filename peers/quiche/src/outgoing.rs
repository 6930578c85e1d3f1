//! Sending side of a stream: some bytes, then bytes of the static pattern, then the end.

use bytes::Bytes;
use peer_common::PATTERN;
use quiche::Error;

use crate::config::Connection;
use crate::stack;

/// Unsent data of a stream.
#[derive(Default)]
pub struct Outgoing {
    /// Number of bytes of the head that the stack has not accepted.
    head: u64,
    /// Bytes that are to be sent next and that the stack has not accepted.
    rest: Option<Bytes>,
    /// Number of bytes of the pattern that follow `rest`.
    pattern: u64,
    /// `true` if the stream ends after the pattern. Until that is known, the stream stays open.
    end: bool,
    done: bool,
}

impl Outgoing {
    /// Creates the state for `head`, followed by `pattern` bytes of the pattern, and by the end of the stream
    /// if `end`.
    pub fn new(head: Bytes, pattern: u64, end: bool) -> Self {
        Self {
            head: head.len() as u64,
            rest: Some(head).filter(|head| !head.is_empty()),
            pattern,
            end,
            done: false,
        }
    }

    /// Ends the stream after the data.
    pub fn end(&mut self) {
        self.end = true;
    }

    /// Returns whether the stack has accepted everything, including the end.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Sends as much as the connection accepts. Returns the number of accepted bytes of the pattern.
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
                // The last piece is sent with the end, because quiceh's send queue can lose an end without
                // data.
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
