//! Code that is specific to quiceh. quiche, of which it is a fork, has another file like this one and the
//! rest of the program.

use std::net::SocketAddr;

use bytes::Bytes;
use peer_common::Failure;
use peer_common::args::{Case, Common, Wire};
use quiche::h3::{self, Error as HttpError};
use quiche::{Config, ConnectionId, Error, PROTOCOL_VERSION_V1, PROTOCOL_VERSION_VREVERSO};

use crate::config::{Buffer, Connection};

/// The stack's name.
pub const NAME: &str = "quiceh";

/// Refuses what a client cannot do.
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

/// Returns the version with which a client starts.
pub fn version(common: &Common) -> u32 {
    version_of(common.wire)
}

/// Returns the version of a wire format.
pub fn version_of(wire: Wire) -> u32 {
    match wire {
        Wire::V1 => PROTOCOL_VERSION_V1,
        Wire::Reverso => PROTOCOL_VERSION_VREVERSO,
    }
}

fn reverses(connection: &Connection) -> bool {
    connection.version() == PROTOCOL_VERSION_VREVERSO
}

/// Returns the first bidirectional stream of a client. In VReverso's headers, stream 0 means no stream at
/// all.
pub fn first_stream(connection: &Connection) -> u64 {
    if reverses(connection) { 4 } else { 0 }
}

/// Returns whether the server accepted the client's early data, which quiceh does not report.
pub fn early_data_accepted(_: &Connection) -> bool {
    false
}

/// Takes a client that came back with a token: `original` is the connection ID it first chose, `retried` the
/// one of the Retry, which stays the connection's.
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

/// Hands over bytes without a copy; how many were taken, and what is left of them.
pub fn send(
    connection: &mut Connection,
    id: u64,
    piece: Bytes,
    end: bool,
) -> Result<(usize, Option<Bytes>), Error> {
    if piece.is_empty() {
        // Without a copy, an end without bytes would come back as bytes that were not taken.
        return connection.stream_send(id, &piece, end).map(|n| (n, None));
    }
    let (taken, rest) = connection.stream_send_zc(id, Buffer(piece), None, end)?;
    Ok((taken, rest.map(|Buffer(rest)| rest)))
}

/// Reads all that has come on a stream, piece by piece; true if that was its end. VReverso's pieces are lent.
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
            // Of a stream whose last piece was consumed before its end was known, only this shows the end.
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
            // As its documentation asks for, so that the stream goes away.
            let _ = connection.stream_consumed(id, 0);
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    connection.stream_consumed(id, n)?;
    if n == 0 && !end { Err(Error::Done) } else { Ok(end) }
}

/// Returns whether the peer's part of a stream has ended and none of it is left to read.
pub fn finished(connection: &Connection, id: u64) -> bool {
    if reverses(connection) { connection.stream_finished_v3(id) } else { connection.stream_finished(id) }
}

/// Reads all that has come of a message's content, piece by piece. VReverso's pieces are lent.
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

/// Hands over content without a copy and takes what went from its front; how much that was.
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
