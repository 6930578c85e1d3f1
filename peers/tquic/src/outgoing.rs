//! Data that a stream still has to send, over HTTP/3 or without it.

use bytes::Bytes;
use peer_common::{PATTERN, http3};
use tquic::h3::connection::Http3Connection;
use tquic::h3::{Header, Http3Error};
use tquic::{Connection, Error};

/// Connection as a stream uses it: with HTTP/3 or without.
pub struct Channel<'a> {
    pub quic: &'a mut Connection,
    pub http3: Option<&'a mut Http3Connection>,
}

/// Data that a stream still has to send.
#[derive(Default)]
pub struct Outgoing {
    /// Head of an HTTP message.
    pub head: Option<Vec<Header>>,
    pub content: Bytes,
    /// Bytes of the pattern, after the content.
    pub pattern: u64,
    /// `true` if the stream ends after the data.
    pub end: bool,
    /// `true` if the end has been passed to the stack.
    pub ended: bool,
}

impl Outgoing {
    /// Returns data after which the stream ends.
    pub fn all(content: impl Into<Bytes>) -> Self {
        Self { content: content.into(), end: true, ..Self::default() }
    }

    /// Passes data to the stack, until that takes no more. Returns the number of bytes without the head.
    pub fn push(&mut self, channel: &mut Channel<'_>, id: u64) -> Result<u64, String> {
        let mut moved = 0;
        if let Some(head) = &self.head {
            let only_head = self.end && self.content.is_empty() && self.pattern == 0;
            let Some(http3) = &mut channel.http3 else { return Err("a head without HTTP/3".to_owned()) };
            match http3.send_headers(channel.quic, id, head, only_head) {
                Ok(()) | Err(Http3Error::StreamBlocked) => self.ended = only_head,
                Err(error) => return Err(format!("headers: {error}")),
            }
            self.head = None;
        }
        while !self.ended {
            let (piece, of_content) = if self.content.is_empty() {
                (Bytes::from_static(http3::piece(self.pattern)), false)
            } else {
                (self.content.clone(), true)
            };
            let length = piece.len();
            let last =
                self.end && (self.pattern == 0 || (!of_content && self.pattern <= PATTERN.len() as u64));
            if length == 0 && !last {
                channel.quic.stream_want_write(id, false).map_err(|error| error.to_string())?;
                break;
            }
            let Some(written) = write(channel, id, piece, last)? else { break };
            moved += written as u64;
            if of_content {
                self.content = self.content.slice(written..);
            } else {
                self.pattern -= written as u64;
            }
            self.ended = last && written == length;
            if written < length {
                let _ = channel.quic.stream_want_write(id, true);
                break;
            }
        }
        if self.ended {
            // The stream may be gone already.
            let _ = channel.quic.stream_want_write(id, false);
        }
        Ok(moved)
    }
}

/// Writes one piece. Returns how much of it was taken, or `None` if the stream is blocked.
fn write(channel: &mut Channel<'_>, id: u64, piece: Bytes, last: bool) -> Result<Option<usize>, String> {
    match &mut channel.http3 {
        None => match channel.quic.stream_write(id, piece, last) {
            Ok(written) => Ok(Some(written)),
            Err(Error::Done) => Ok(None),
            Err(error) => Err(error.to_string()),
        },
        Some(http3) => loop {
            match http3.send_body(channel.quic, id, piece.clone(), last) {
                Ok(written) => return Ok(Some(written)),
                // A head that was blocked has been sent.
                Err(Http3Error::NoError) => {}
                Err(Http3Error::Done | Http3Error::StreamBlocked) => {
                    let _ = channel.quic.stream_want_write(id, true);
                    return Ok(None);
                }
                Err(error) => return Err(format!("content: {error}")),
            }
        },
    }
}
