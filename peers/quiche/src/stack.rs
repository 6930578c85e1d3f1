//! Code that is specific to quiche. The program of its fork quiceh has a similar file and shares the rest.

use std::net::SocketAddr;

use bytes::Bytes;
use peer_common::Failure;
use peer_common::args::{Case, Common};
use quiche::h3::{self, Error as HttpError};
use quiche::{Config, ConnectionId, Error, RetryConnectionIds};

use crate::config::{Connection, Shared};

/// Name of the stack.
pub const NAME: &str = "quiche";

/// BoringSSL's value for accepted early data (`ssl_early_data_accepted`).
const EARLY_DATA_ACCEPTED: u32 = 2;

/// Fails if a client does not support the case.
pub fn can(case: Case) -> Result<(), Failure> {
    match case {
        Case::Handshake | Case::Transfer | Case::Multiplexing | Case::Rebind | Case::Datagram => Ok(()),
        Case::Resumption | Case::ZeroRtt => Ok(()),
        case => Err(Failure::Unsupported(format!("{NAME}'s interface has nothing for {}", case.name()))),
    }
}

/// Returns the initial version of a client.
pub fn version(_: &Common) -> u32 {
    quiche::PROTOCOL_VERSION
}

/// Returns the ID of the first bidirectional stream of a client.
pub fn first_stream(_: &Connection) -> u64 {
    0
}

/// Returns whether the server accepted the client's early data.
pub fn early_data_accepted(connection: &Connection) -> bool {
    connection.early_data_reason() == EARLY_DATA_ACCEPTED
}

/// Accepts a client that returns a Retry token. `original` is the client's original destination connection
/// ID, and `retried` is the one of the Retry packet.
pub fn accept_retried(
    scid: &ConnectionId<'_>,
    original: &ConnectionId<'_>,
    retried: &ConnectionId<'_>,
    local: SocketAddr,
    from: SocketAddr,
    config: &mut Config,
) -> Result<Connection, Error> {
    let cids = RetryConnectionIds { original_destination_cid: original, retry_source_cid: retried };
    quiche::accept_with_retry::<Shared>(scid, cids, local, from, config)
}

/// Sends bytes without a copy. Returns the number of bytes accepted, and the remaining bytes.
pub fn send(
    connection: &mut Connection,
    id: u64,
    piece: Bytes,
    end: bool,
) -> Result<(usize, Option<Bytes>), Error> {
    connection.stream_send_zc(id, piece, end)
}

/// Reads all available data of a stream, piece by piece. Returns `true` at the end of the stream.
pub fn read(
    connection: &mut Connection,
    id: u64,
    sink: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<bool, Error> {
    loop {
        match connection.stream_recv(id, sink) {
            Ok((n, end)) => {
                each(&sink[..n]);
                if end {
                    return Ok(true);
                }
            }
            Err(Error::Done) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the peer's side of a stream has ended and all of its data has been read.
pub fn finished(connection: &Connection, id: u64) -> bool {
    connection.stream_finished(id)
}

/// Reads all available content of a message, piece by piece.
pub fn read_body(
    http: &mut h3::Connection,
    connection: &mut Connection,
    id: u64,
    sink: &mut [u8],
    mut each: impl FnMut(&[u8]),
) {
    while let Ok(n) = http.recv_body(connection, id, sink) {
        each(&sink[..n]);
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
    http.send_body_zc(connection, id, body, end)
}
