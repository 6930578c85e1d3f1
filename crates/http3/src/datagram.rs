//! HTTP datagrams in QUIC DATAGRAM frames (RFC 9297 §2.1).

use anabranch_wire::{Dir, Direction, Reader, Side, StreamId, push_varint, varint_len};
use bytes::Bytes;

use crate::error::{Code, Error};

/// Maximum quarter stream ID: that of the last possible request stream (RFC 9297 §2.1).
const MAX_QUARTER: u64 = (1 << 60) - 1;

/// Splits the payload of a DATAGRAM frame into the ID of its request stream and the HTTP datagram's payload.
///
/// # Errors
///
/// Returns H3_DATAGRAM_ERROR if the datagram has no complete quarter stream ID, or if the quarter stream ID
/// exceeds 2^60 - 1.
pub fn decode_datagram(mut datagram: Bytes) -> Result<(StreamId, Bytes), Error> {
    let mut reader = Reader::new(&datagram, Direction::Forward);
    let quarter = match reader.varint() {
        Ok(quarter @ 0..=MAX_QUARTER) => quarter,
        Ok(_) => return Err(Error::new(Code::DATAGRAM_ERROR, "a quarter stream ID above 2^60 - 1")),
        Err(_) => return Err(Error::new(Code::DATAGRAM_ERROR, "a datagram without a quarter stream ID")),
    };
    let prefix = datagram.len() - reader.remaining();
    Ok((StreamId::new(Side::Client, Dir::Bi, quarter), datagram.split_off(prefix)))
}

/// Encodes an HTTP datagram of the request on `stream` as the payload of a DATAGRAM frame.
pub fn encode_datagram(stream: StreamId, payload: &[u8]) -> Bytes {
    let mut datagram = Vec::with_capacity(datagram_overhead(stream) + payload.len());
    push_varint(&mut datagram, stream.index());
    datagram.extend_from_slice(payload);
    datagram.into()
}

/// Returns the number of bytes that [`encode_datagram`] adds to a payload: the length of the quarter stream
/// ID.
pub const fn datagram_overhead(stream: StreamId) -> usize {
    varint_len(stream.index())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_names_its_stream_by_a_quarter() {
        let stream = StreamId::from_u64(44);
        let datagram = encode_datagram(stream, b"hello");
        assert_eq!(&datagram[..], b"\x0bhello");
        assert_eq!(datagram.len(), datagram_overhead(stream) + 5);
        assert_eq!(decode_datagram(datagram), Ok((stream, Bytes::from_static(b"hello"))));
    }

    #[test]
    fn the_last_request_stream_is_the_limit() {
        let last = StreamId::new(Side::Client, Dir::Bi, MAX_QUARTER);
        assert_eq!(decode_datagram(encode_datagram(last, b"")), Ok((last, Bytes::new())));
        let beyond = Bytes::copy_from_slice(&(0xc000_0000_0000_0000_u64 | 1 << 60).to_be_bytes());
        assert_eq!(decode_datagram(beyond).unwrap_err().code, Code::DATAGRAM_ERROR);
    }

    #[test]
    fn a_datagram_without_a_whole_prefix_is_a_fault() {
        for datagram in [&b""[..], b"\x40", b"\x80\0\0", b"\xc0\0\0\0\0\0\0"] {
            let fault = decode_datagram(Bytes::from_static(datagram)).unwrap_err();
            assert_eq!(fault.code, Code::DATAGRAM_ERROR);
        }
    }
}
