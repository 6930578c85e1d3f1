//! Requests to the kernel over netlink. Each is answered before the next is sent.

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr};

/// Maximum number of messages of an answer.
const MAX_ANSWER: usize = 10_000;

/// A socket of one netlink protocol, in the network namespace of the thread that opened it.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// Message of any netlink protocol: its type, and the bytes after the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Message {
    type Error = core::convert::Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

impl From<RouteNetlinkMessage> for Message {
    fn from(message: RouteNetlinkMessage) -> Self {
        let mut body = vec![0; Emitable::buffer_len(&message)];
        message.emit(&mut body);
        Self { kind: message.message_type(), body }
    }
}

impl Netlink {
    /// Opens a socket of `protocol`.
    pub(super) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request for a change, with `flags` in addition to those of every request.
    pub(super) fn change(&mut self, message: impl Into<Message>, flags: u16) -> io::Result<()> {
        self.ask(message.into(), NLM_F_ACK | flags).map(drop)
    }

    /// Returns the list of all objects that `message` requests.
    pub(super) fn dump(&mut self, message: impl Into<Message>) -> io::Result<Vec<Message>> {
        self.ask(message.into(), NLM_F_DUMP)
    }

    /// Sends a request. Returns the messages before the final acknowledgment or the end of the list.
    pub(super) fn ask(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = Vec::new();
        while answer.len() < MAX_ANSWER {
            let (received, _) = self.socket.recv_from_full()?;
            let mut rest = &received[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<Message>::deserialize(rest).map_err(io::Error::other)?;
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::InnerMessage(message) => answer.push(message),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answer),
                    _ => {}
                }
            }
        }
        Err(io::Error::other("netlink does not come to an end"))
    }
}

/// Returns an attribute.
pub(super) fn attribute(kind: u16, value: impl Into<Vec<u8>>) -> DefaultNla {
    DefaultNla::new(kind, value.into())
}

/// Returns an attribute that contains other attributes.
pub(super) fn nested(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, bytes(inner))
}

/// Returns attributes in the form in which a message contains them.
pub(super) fn bytes(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// Returns a text with the terminating zero that the kernel expects in attributes.
pub(super) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
