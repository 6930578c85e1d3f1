//! List of all frames. It defines each type code and the order of its fields once, for reading, writing and
//! sizing.

use super::ack::Ack;
use super::field::Field;
use super::stream::{self, Stream};
use super::{ConnectionClose, Fault, Frame, NewConnectionId};
use crate::Dir;
use crate::cursor::{Reader, Region};
use crate::varint::varint_len;

/// Defines the functions below for the listed frames. Each entry has the form `type (fields in wire order)
/// [frame]`. The frame is used both as an expression and as a pattern. `without name = value` sets a field of
/// the frame that this type does not carry.
macro_rules! frames {
    ($($kind:literal ($($field:ident),*) [$($frame:tt)+] $(without $absent:ident = $value:literal)?;)*) => {
        /// Returns the type code of `frame`.
        pub(super) fn kind(frame: &Frame<'_>) -> u64 {
            match *frame {
                Frame::Padding(_) => PADDING,
                Frame::Stream(Stream { fin, .. }) => stream::kind(fin),
                $(Frame::$($frame)+ => { $(let _ = $field;)* $(let _ = $absent;)? $kind })*
            }
        }

        /// Returns the size of `frame` in bytes.
        pub(super) fn size(frame: &Frame<'_>) -> usize {
            match *frame {
                Frame::Padding(run) => run,
                Frame::Stream(Stream { id, offset, data, .. }) => stream::stream_size(id, offset, data.len()),
                $(Frame::$($frame)+ => { $(let _ = $absent;)? varint_len($kind) $(+ $field.size())* })*
            }
        }

        /// Writes `frame` to `region`, which must have exactly the frame's size.
        pub(super) fn write(frame: &Frame<'_>, region: &mut Region<'_>) {
            match *frame {
                Frame::Padding(run) => region.take(run).fill(0),
                Frame::Stream(s) => stream::fill_stream(region, s.id, s.offset, s.fin, s.data.len(), |to| {
                    to.copy_from_slice(s.data);
                }),
                $(Frame::$($frame)+ => {
                    $(let _ = $absent;)?
                    region.varint($kind);
                    $($field.write(region);)*
                })*
            }
        }

        /// Reads the fields after the frame type `kind`.
        #[inline]
        pub(super) fn read<'a>(kind: u64, reader: &mut Reader<'a>) -> Result<Frame<'a>, Fault> {
            Ok(match kind {
                PADDING => Frame::Padding(1 + reader.zeros()),
                stream::FIRST..=stream::LAST => Frame::Stream(stream::read(kind, reader)?),
                stream::DATAGRAM_TO_THE_END => Frame::Datagram { data: reader.rest() },
                $($kind => {
                    $(let $field = Field::read(reader)?;)*
                    $(let $absent = $value;)?
                    Frame::$($frame)+
                })*
                _ => return Err(Fault::encoding("unknown frame type")),
            })
        }
    };
}

const PADDING: u64 = 0x00;

frames! {
    // RFC 9000 §19
    0x01 () [Ping];
    0x02 (largest, delay, blocks) [Ack(Ack { path: None, largest, delay, blocks, ecn: None })];
    0x03 (largest, delay, blocks, ecn) [Ack(Ack { path: None, largest, delay, blocks, ecn: Some(ecn) })];
    0x04 (id, code, final_size) [ResetStream { id, code, final_size }];
    0x05 (id, code) [StopSending { id, code }];
    0x06 (offset, data) [Crypto { offset, data }];
    0x07 (token) [NewToken { token }];
    0x10 (maximum) [MaxData(maximum)];
    0x11 (id, maximum) [MaxStreamData { id, maximum }];
    0x12 (maximum) [MaxStreams { dir: Dir::Bi, maximum }];
    0x13 (maximum) [MaxStreams { dir: Dir::Uni, maximum }];
    0x14 (maximum) [DataBlocked(maximum)];
    0x15 (id, maximum) [StreamDataBlocked { id, maximum }];
    0x16 (maximum) [StreamsBlocked { dir: Dir::Bi, maximum }];
    0x17 (maximum) [StreamsBlocked { dir: Dir::Uni, maximum }];
    0x18 (sequence, retire_prior_to, cid, token)
        [NewConnectionId(NewConnectionId { path: None, sequence, retire_prior_to, cid, token })];
    0x19 (sequence) [RetireConnectionId { path: None, sequence }];
    0x1a (data) [PathChallenge(data)];
    0x1b (data) [PathResponse(data)];
    0x1c (code, frame_type, reason)
        [ConnectionClose(ConnectionClose { application: false, code, frame_type, reason })];
    0x1d (code, reason)
        [ConnectionClose(ConnectionClose { application: true, code, frame_type, reason })] without frame_type = 0;
    0x1e () [HandshakeDone];
    // draft-ietf-quic-ack-frequency
    0x1f () [ImmediateAck];
    0xaf (sequence, threshold, max_ack_delay_us, reordering_threshold)
        [AckFrequency { sequence, threshold, max_ack_delay_us, reordering_threshold }];
    // RFC 9221
    0x31 (data) [Datagram { data }];
    // RFC 10069
    0x3e (path, largest, delay, blocks) [Ack(Ack { path: Some(path), largest, delay, blocks, ecn: None })];
    0x3f (path, largest, delay, blocks, ecn) [Ack(Ack { path: Some(path), largest, delay, blocks, ecn: Some(ecn) })];
    0x3e75 (path, code) [PathAbandon { path, code }];
    0x3e76 (path, sequence) [PathStatus { path, available: false, sequence }];
    0x3e77 (path, sequence) [PathStatus { path, available: true, sequence }];
    0x3e78 (path, sequence, retire_prior_to, cid, token)
        [NewConnectionId(NewConnectionId { path: Some(path), sequence, retire_prior_to, cid, token })];
    0x3e79 (path, sequence) [RetireConnectionId { path: Some(path), sequence }];
    0x3e7a (path) [MaxPathId(path)];
    0x3e7b (path) [PathsBlocked(path)];
    0x3e7c (path, next_sequence) [PathCidsBlocked { path, next_sequence }];
    // draft-munizaga-quic-alternative-server-address
    0x1d58_45e2 (flags, sequence, address) [AlternativeV4Address { flags, sequence, address }];
    0x1d58_45e3 (flags, sequence, address) [AlternativeV6Address { flags, sequence, address }];
}
