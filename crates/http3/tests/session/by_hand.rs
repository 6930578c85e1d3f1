//! Setup of a session and a peer whose bytes are written by hand.

use anabranch_http3::frame::{FrameType, write_header};
use anabranch_http3::qpack::{Encoder, Field};
use anabranch_http3::{Code, Config, Event, StreamType};
use anabranch_transport::TransportConfig;
use anabranch_transport::stream::ReadError;
use anabranch_wire::{Dir, Side, StreamId};
use http::Request;

use crate::pair::{Host, Pair, Setup};

/// Field lines of a valid request.
pub(crate) const REQUEST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":authority", "server.lab"), (":path", "/")];
/// Field lines of a valid request for a tunnel.
pub(crate) const CONNECT: [(&str, &str); 2] = [(":method", "CONNECT"), (":authority", "server.lab:443")];
/// Field lines of a valid response.
pub(crate) const RESPONSE: [(&str, &str); 1] = [(":status", "200")];

/// One session (the victim), and a peer without a session.
pub(crate) struct Duel {
    pub(crate) pair: Pair,
    pub(crate) side: Side,
    /// The peer's control stream, on which SETTINGS were sent.
    pub(crate) control: StreamId,
    /// Number of the peer's streams that exist until the connection ends.
    kept: usize,
}

impl Duel {
    /// Creates a duel in which the victim is on `side`.
    pub(crate) fn against(side: Side) -> Self {
        Self::with(side, Config::default(), TransportConfig::default())
    }

    pub(crate) fn with(side: Side, config: Config, transport: TransportConfig) -> Self {
        let (client, server) = if side.is_client() { (Some(config), None) } else { (None, Some(config)) };
        let pair = Pair::with(Setup { client, server, transport });
        let mut duel = Self { pair, side, control: StreamId::from_u64(0), kept: 0 };
        duel.control = duel.peer().open(Dir::Uni, b"\0\x04\0", false);
        duel.pair.pump();
        assert!(duel.victim().events.contains(&Event::Settings));
        duel.kept = duel.victim().connection().streams().open_streams();
        duel
    }

    pub(crate) fn victim(&mut self) -> &mut Host {
        match self.side {
            Side::Client => &mut self.pair.client,
            Side::Server => &mut self.pair.server,
        }
    }

    pub(crate) fn peer(&mut self) -> &mut Host {
        match self.side {
            Side::Client => &mut self.pair.server,
            Side::Server => &mut self.pair.client,
        }
    }

    /// Returns a stream for a message of the peer: a new request, or the response to a new request of the
    /// victim.
    pub(crate) fn message(&mut self) -> StreamId {
        match self.side {
            Side::Server => self.peer().open(Dir::Bi, b"", false),
            Side::Client => self.request("GET"),
        }
    }

    /// Sends the head of a message that begins a tunnel. Returns its stream.
    pub(crate) fn tunnel(&mut self) -> StreamId {
        let (id, head) = match self.side {
            Side::Server => (self.message(), headers(&CONNECT)),
            Side::Client => (self.request("CONNECT"), headers(&RESPONSE)),
        };
        self.send(id, &head, false);
        id
    }

    /// Makes a request without content, and delivers all packets; the victim must be a client.
    pub(crate) fn request(&mut self, method: &str) -> StreamId {
        let id = self.begin_request(method);
        self.pair.pump();
        id
    }

    /// Makes a request without content; the victim must be a client.
    pub(crate) fn begin_request(&mut self, method: &str) -> StreamId {
        let uri = if method == "CONNECT" { "server.lab:443" } else { "https://server.lab/" };
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let parts = request.into_parts().0;
        self.victim().http(|session, streams| session.request(streams, &parts, true)).unwrap()
    }

    /// Reads the content at the victim until no more has arrived. Returns nothing if the victim has closed
    /// the connection.
    pub(crate) fn read(&mut self, id: StreamId) -> (Vec<u8>, anabranch_http3::ReadError) {
        match self.victim().is_gone() {
            true => (Vec::new(), anabranch_http3::ReadError::Closed),
            false => self.victim().read(id),
        }
    }

    /// Writes to a stream, then delivers all packets.
    pub(crate) fn send(&mut self, id: StreamId, bytes: &[u8], end: bool) {
        self.peer().write(id, bytes, end);
        self.pair.pump();
    }

    /// Opens a unidirectional stream with these bytes, then delivers all packets.
    pub(crate) fn send_uni(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.peer().open(Dir::Uni, bytes, false);
        self.pair.pump();
        id
    }

    /// Resets the peer's half of a stream, then delivers all packets.
    pub(crate) fn reset(&mut self, id: StreamId, code: Code) {
        self.peer().connection().streams().reset(id, code.into()).unwrap();
        self.pair.pump();
    }

    /// Stops the victim's half of a stream (STOP_SENDING), then delivers all packets.
    pub(crate) fn stop(&mut self, id: StreamId, code: Code) {
        self.peer().connection().streams().stop(id, code.into()).unwrap();
        self.pair.pump();
    }

    /// Returns a valid HEADERS frame for the beginning of a message.
    pub(crate) fn head(&self) -> Vec<u8> {
        match self.side {
            Side::Server => headers(&REQUEST),
            Side::Client => headers(&RESPONSE),
        }
    }

    /// Accepts the next request at the victim. Returns `None` if there is none, as on a client.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        self.victim().charge(|host| host.session.as_mut().unwrap().accept().map(|(id, _)| id))
    }

    /// Returns all bytes that the peer has received on a stream so far, and the reason that reading ended.
    pub(crate) fn received(&mut self, id: StreamId) -> (Vec<u8>, ReadError) {
        let streams = self.peer().connection().streams();
        let mut received = Vec::new();
        loop {
            match streams.take(id, usize::MAX) {
                Ok(bytes) => received.extend_from_slice(&bytes),
                Err(end) => return (received, end),
            }
        }
    }

    /// Returns the code with which the victim closed the connection.
    pub(crate) fn close_code(&mut self) -> Option<Code> {
        self.pair.pump();
        self.peer().close_code()
    }

    /// Releases all requests that the application knows, and checks that neither the session nor the
    /// transport has any state of requests left.
    pub(crate) fn assert_quiet(&mut self, known: &[StreamId]) {
        while let Some(id) = self.accept() {
            self.victim().http(|session, streams| session.release(streams, id));
        }
        for id in known {
            self.victim().http(|session, streams| session.release(streams, *id));
        }
        self.pair.pump();
        let kept = self.kept;
        assert_eq!(self.victim().session.as_ref().unwrap().open_requests(), 0, "requests are left");
        assert_eq!(self.victim().connection().streams().open_streams(), kept, "streams are left");
        assert_eq!(self.close_code(), None);
    }

    /// Records that the peer has opened one more unidirectional stream that exists until the connection ends.
    pub(crate) fn keeps_one_more(&mut self) {
        self.kept += 1;
    }
}

/// Creates a frame.
pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_header(FrameType(kind), payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

pub(crate) fn data(payload: &[u8]) -> Vec<u8> {
    frame(FrameType::DATA.0, payload)
}

/// Creates a HEADERS frame with any lines, without the dynamic table.
pub(crate) fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    let fields = lines.iter().map(|(name, value)| Field {
        name: name.as_bytes(),
        value: value.as_bytes(),
        sensitive: false,
    });
    let mut section = Vec::new();
    Encoder::new().encode(0, fields, 0, &mut section);
    frame(FrameType::HEADERS.0, &section)
}

/// Creates the bytes of the peer's QPACK encoder stream, including the stream type.
pub(crate) fn encoder_stream(instructions: &[u8]) -> Vec<u8> {
    [&[StreamType::QPACK_ENCODER.0], instructions].concat()
}

pub(crate) fn decoder_stream(instructions: &[u8]) -> Vec<u8> {
    [&[StreamType::QPACK_DECODER.0], instructions].concat()
}

/// Possible roles of the victim.
pub(crate) const ROLES: [Side; 2] = [Side::Server, Side::Client];
