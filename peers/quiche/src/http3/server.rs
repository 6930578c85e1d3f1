//! Server side: `/bytes/N` and files below the root.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use peer_common::http3::{self, Content};
use quiche::h3::{self, Error, Event, Header, HeaderRef, NameValue};

use crate::config::Connection;
use crate::stack;

/// HTTP/3 on one connection.
pub struct Web {
    http: h3::Connection,
    /// Responses that the connection has not yet accepted completely.
    answers: HashMap<u64, Answer>,
}

/// Unsent part of a response: its header section, then `rest`, then `pattern` bytes of the pattern.
struct Answer {
    head: Option<Head>,
    rest: Bytes,
    pattern: u64,
}

#[derive(Clone, Copy)]
struct Head {
    status: &'static [u8],
    length: u64,
}

impl Web {
    /// Starts HTTP/3 on a connection.
    pub fn new(connection: &mut Connection) -> Result<Self, Error> {
        let http = h3::Connection::with_transport(connection, &h3::Config::new()?)?;
        Ok(Self { http, answers: HashMap::new() })
    }

    /// Responds to requests, as far as the connection allows.
    pub fn serve(&mut self, connection: &mut Connection, root: Option<&Path>) {
        let Self { http, answers } = self;
        answers.retain(|&id, answer| matches!(answer.push(http, connection, id), Ok(false)));
        // An error closes the connection; the client reports it.
        while let Ok((id, event)) = http.poll(connection) {
            let Event::Headers { list, .. } = event else { continue };
            let mut answer = Answer::to(&list, root);
            if let Ok(false) = answer.push(http, connection, id) {
                answers.insert(id, answer);
            }
        }
    }
}

impl Answer {
    fn to(request: &[Header], root: Option<&Path>) -> Self {
        let path = request.iter().find(|field| field.name() == b":path");
        let path = path.and_then(|path| std::str::from_utf8(path.value()).ok());
        let content = path.and_then(|path| http3::content(root, path));
        let length = content.as_ref().map_or(0, Content::len);
        let (status, rest, pattern): (&[u8], _, _) = match content {
            Some(Content::Pattern(count)) => (b"200", Bytes::new(), count),
            Some(Content::File(body)) => (b"200", Bytes::from(body), 0),
            None => (b"404", Bytes::new(), 0),
        };
        Self { head: Some(Head { status, length }), rest, pattern }
    }

    /// Sends as much as the connection accepts. Returns `true` if the response is complete.
    fn push(
        &mut self,
        http: &mut h3::Connection,
        connection: &mut Connection,
        id: u64,
    ) -> Result<bool, Error> {
        if let Some(head) = self.head {
            match head.send(http, connection, id) {
                Err(Error::StreamBlocked) => return Ok(false),
                other => other?,
            }
            self.head = None;
        }
        while !self.rest.is_empty() || self.pattern > 0 {
            if self.rest.is_empty() {
                self.rest = Bytes::from_static(http3::piece(self.pattern));
                self.pattern -= self.rest.len() as u64;
            }
            let whole = self.rest.len();
            match stack::send_body(http, connection, id, &mut self.rest, self.pattern == 0) {
                Ok(n) if n == whole => self.rest = Bytes::new(),
                Ok(_) | Err(Error::Done) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Head {
    fn send(self, http: &mut h3::Connection, connection: &mut Connection, id: u64) -> Result<(), Error> {
        let length = self.length.to_string();
        let fields = [
            HeaderRef::new(b":status", self.status),
            HeaderRef::new(b"content-length", length.as_bytes()),
            HeaderRef::new(b"content-type", http3::CONTENT_TYPE.as_bytes()),
            HeaderRef::new(b"server", stack::NAME.as_bytes()),
        ];
        http.send_response(connection, id, &fields, self.length == 0)
    }
}
