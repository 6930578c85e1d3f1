//! Code that is specific to quiceh. quiceh is a fork of quiche, whose program has a similar file and shares
//! the rest.

use std::net::SocketAddr;

use bytes::Bytes;
use peer_common::Failure;
use peer_common::args::{Case, Common, Wire};
use quiche::h3::{self, Error as HttpError};
use quiche::{Config, ConnectionId, Error, PROTOCOL_VERSION_V1, PROTOCOL_VERSION_VREVERSO};

use crate::config::{Buffer, Connection};

/// Name of the stack.
pub const NAME: &str = "quiceh";

/// Fails if a client does not support the case.
pub fn can(case: Case) -> Result<(), Failure> {
    let why = match case {
        Case::Handshake | Case::Transfer | Case::Multiplexing | Case::Rebind | Case::Datagram => {
            return Ok(());
        }
        Case::Resumption => return Ok(()),
        Case::ZeroRtt => "quiceh does not say whether its early data was accepted".to_owned(),
        case => format!("{NAME}'s interface has nothing for {}", case.name()),
    };
    Err(Failure::Unsupported(why))
}

/// Returns the initial version of a client.
pub fn version(common: &Common) -> u32 {
    version_of(common.wire)
}

/// Returns the version for a wire format.
pub fn version_of(wire: Wire) -> u32 {
    match wire {
        Wire::V1 => PROTOCOL_VERSION_V1,
        Wire::Reverso => PROTOCOL_VERSION_VREVERSO,
    }
}

fn reverses(connection: &Connection) -> bool {
    connection.version() == PROTOCOL_VERSION_VREVERSO
}

/// Returns the ID of the first bidirectional stream of a client. In VReverso's headers, stream ID 0 means
/// that there is no stream.
pub fn first_stream(connection: &Connection) -> u64 {
    if reverses(connection) { 4 } else { 0 }
}

/// Returns whether the server accepted the client's early data, which quiceh does not report.
pub fn early_data_accepted(_: &Connection) -> bool {
    false
}

/// Accepts a client that returns a Retry token. `original` is the client's original destination connection
/// ID; `retried` is the one of the Retry packet, which the connection keeps.
pub fn accept_retried(
    _: &ConnectionId<'_>,
    original: &ConnectionId<'_>,
    retried: &ConnectionId<'_>,
    local: SocketAddr,
    from: SocketAddr,
    config: &mut Config,
) -> Result<Connection, Error> {
    quiche::accept_with_buf_factory(retried, Some(original), local, from, config)
}

/// Sends bytes without a copy. Returns the number of bytes accepted, and the remaining bytes.
pub fn send(
    connection: &mut Connection,
    id: u64,
    piece: Bytes,
    end: bool,
) -> Result<(usize, Option<Bytes>), Error> {
    if piece.is_empty() {
        // Without a copy, an end of stream without bytes would be returned as bytes that were not accepted.
        return connection.stream_send(id, &piece, end).map(|n| (n, None));
    }
    let (taken, rest) = connection.stream_send_zc(id, Buffer(piece), None, end)?;
    Ok((taken, rest.map(|Buffer(rest)| rest)))
}

/// Reads all available data of a stream, piece by piece. Returns `true` at the end of the stream. With
/// VReverso, `each` gets the stack's own memory.
pub fn read(
    connection: &mut Connection,
    id: u64,
    sink: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<bool, Error> {
    let reverses = reverses(connection);
    loop {
        let read =
            if reverses { lend(connection, id, &mut each) } else { copy(connection, id, sink, &mut each) };
        match read {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // If the last piece was consumed before the end was known, only this function reports the end.
            Err(Error::Done) => return Ok(reverses && connection.stream_finished_v3(id)),
            Err(error) => return Err(error),
        }
    }
}

fn copy(
    connection: &mut Connection,
    id: u64,
    sink: &mut [u8],
    each: &mut impl FnMut(&[u8]),
) -> Result<bool, Error> {
    let (n, end) = connection.stream_recv(id, sink)?;
    each(&sink[..n]);
    Ok(end)
}

fn lend(connection: &mut Connection, id: u64, each: &mut impl FnMut(&[u8])) -> Result<bool, Error> {
    let (n, end) = match connection.stream_peek(id) {
        Ok((piece, n, end)) => {
            each(piece);
            (n, end)
        }
        Err(error @ Error::StreamReset(_)) => {
            // Required by the documentation, so that the stream is removed.
            let _ = connection.stream_consumed(id, 0);
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    connection.stream_consumed(id, n)?;
    if n == 0 && !end { Err(Error::Done) } else { Ok(end) }
}

/// Returns whether the peer's side of a stream has ended and all of its data has been read.
pub fn finished(connection: &Connection, id: u64) -> bool {
    if reverses(connection) { connection.stream_finished_v3(id) } else { connection.stream_finished(id) }
}

/// Reads all available content of a message, piece by piece. With VReverso, `each` gets the stack's own
/// memory.
pub fn read_body(
    http: &mut h3::Connection,
    connection: &mut Connection,
    id: u64,
    sink: &mut [u8],
    mut each: impl FnMut(&[u8]),
) {
    if !reverses(connection) {
        while let Ok(n) = http.recv_body(connection, id, sink) {
            each(&sink[..n]);
        }
        return;
    }
    while let Ok((piece, _)) = http.body_peek(connection, id) {
        let n = piece.len();
        each(piece);
        if http.body_consumed(connection, id, n).is_err() {
            return;
        }
    }
}

/// Sends content without a copy, and removes the accepted bytes from `body`. Returns their number.
pub fn send_body(
    http: &mut h3::Connection,
    connection: &mut Connection,
    id: u64,
    body: &mut Bytes,
    end: bool,
) -> Result<usize, HttpError> {
    let (taken, rest) = http.send_body_zc(connection, id, Buffer(body.clone()), end)?;
    *body = rest.map_or_else(Bytes::new, |Buffer(rest)| rest);
    Ok(taken)
}
