//! Checks that a payload of any frames has the same size in both directions, and reads as the frames that were
//! written.

use std::net::{SocketAddrV4, SocketAddrV6};

use anabranch_testkit::source::Source;
use anabranch_wire::{
    AddressFlags, ConnectionClose, ConnectionId, Dir, Direction, Frame, Frames, MAX_STREAM_COUNT,
    NewConnectionId, PathId, ResetToken, Stream, StreamId, VarInt, Writer,
};

/// Maximum number of frames in a payload.
const MAX_FRAMES: usize = 12;

/// Bytes of the frames' strings.
const TEXT: &[u8] = &[0xa5; 64];

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let count = 1 + usize::from(source.byte()) % MAX_FRAMES;
    let mut frames: Vec<Frame<'_>> = (0..count).map(|_| frame(&mut source)).collect();
    let size = frames.iter().map(Frame::size).sum();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut buf = vec![0; size];
        let mut writer = Writer::new(&mut buf, direction);
        for frame in &frames {
            writer.frame(frame).expect("a frame fits into its size");
        }
        assert_eq!(writer.remaining(), 0);
        if direction == Direction::Backward {
            // The frame that was written last is read first.
            frames.reverse();
        }
        let mut read = Frames::new(&buf, direction);
        for frame in &frames {
            assert_eq!(read.next(), Some(Ok(*frame)));
        }
        assert!(read.next().is_none());
    }
}

fn text(source: &mut Source<'_>, at_least: usize) -> &'static [u8] {
    &TEXT[..at_least + usize::from(source.byte()) % (TEXT.len() - at_least)]
}

fn id(source: &mut Source<'_>) -> StreamId {
    StreamId::from_u64(source.value())
}

fn code(source: &mut Source<'_>) -> VarInt {
    VarInt::try_from(source.value()).expect("a value of a varint")
}

fn path(source: &mut Source<'_>) -> PathId {
    PathId(u32::from_be_bytes(source.array()))
}

fn dir(source: &mut Source<'_>) -> Dir {
    source.choose(&[Dir::Bi, Dir::Uni])
}

fn frame(source: &mut Source<'_>) -> Frame<'static> {
    match source.byte() % 12 {
        0 => Frame::Ping,
        1 => Frame::ResetStream { id: id(source), code: code(source), final_size: source.value() },
        2 => Frame::StopSending { id: id(source), code: code(source) },
        3 => {
            let data = text(source, 0);
            Frame::Crypto { offset: offset(source, data), data }
        }
        4 => Frame::NewToken { token: text(source, 1) },
        5 => {
            let data = text(source, 0);
            Frame::Stream(Stream { id: id(source), offset: offset(source, data), fin: source.flag(), data })
        }
        6 => Frame::Datagram { data: text(source, 0) },
        7 => Frame::PathChallenge(source.array()),
        8 => Frame::PathResponse(source.array()),
        9 => close(source),
        10 => multipath(source),
        _ => limits(source),
    }
}

/// Returns an offset at which `data` ends below the maximum offset (RFC 9000 §19.6, §19.8).
fn offset(source: &mut Source<'_>, data: &[u8]) -> u64 {
    source.value().min((1 << 62) - 1 - data.len() as u64)
}

fn close(source: &mut Source<'_>) -> Frame<'static> {
    let application = source.flag();
    let frame_type = if application { 0 } else { source.value() };
    let (code, reason) = (code(source), text(source, 0));
    Frame::ConnectionClose(ConnectionClose { application, code, frame_type, reason })
}

fn limits(source: &mut Source<'_>) -> Frame<'static> {
    match source.byte() % 12 {
        0 => Frame::MaxData(source.value()),
        1 => Frame::MaxStreamData { id: id(source), maximum: source.value() },
        2 => Frame::MaxStreams { dir: dir(source), maximum: source.value().min(MAX_STREAM_COUNT) },
        3 => Frame::DataBlocked(source.value()),
        4 => Frame::StreamDataBlocked { id: id(source), maximum: source.value() },
        5 => Frame::StreamsBlocked { dir: dir(source), maximum: source.value().min(MAX_STREAM_COUNT) },
        6 => Frame::HandshakeDone,
        7 => Frame::ImmediateAck,
        8 => Frame::AckFrequency {
            sequence: source.value(),
            threshold: source.value(),
            // draft-ietf-quic-ack-frequency §4: below 2^14 ms.
            max_ack_delay_us: source.value() % ((1 << 14) * 1_000),
            reordering_threshold: source.value(),
        },
        9 => issued(source, None),
        10 => Frame::RetireConnectionId { path: None, sequence: source.value() },
        _ => alternative(source),
    }
}

fn issued(source: &mut Source<'_>, path: Option<PathId>) -> Frame<'static> {
    let sequence = source.value();
    let retire_prior_to = source.value().min(sequence);
    let len = 1 + usize::from(source.byte() % 20);
    let cid = ConnectionId::new(&source.bytes(len)).expect("at most 20 bytes");
    let token = ResetToken(source.array());
    Frame::NewConnectionId(NewConnectionId { path, sequence, retire_prior_to, cid, token })
}

fn multipath(source: &mut Source<'_>) -> Frame<'static> {
    let path = path(source);
    match source.byte() % 7 {
        0 => Frame::PathAbandon { path, code: code(source) },
        1 => Frame::PathStatus { path, available: source.flag(), sequence: source.value() },
        2 => issued(source, Some(path)),
        3 => Frame::RetireConnectionId { path: Some(path), sequence: source.value() },
        4 => Frame::MaxPathId(path.0.into()),
        5 => Frame::PathsBlocked(path.0.into()),
        _ => Frame::PathCidsBlocked { path, next_sequence: source.value() },
    }
}

fn alternative(source: &mut Source<'_>) -> Frame<'static> {
    let flags = AddressFlags { preferred: source.flag(), retire: source.flag() };
    let (sequence, port) = (source.value(), source.number());
    if source.flag() {
        let address = SocketAddrV4::new(source.array::<4>().into(), port);
        Frame::AlternativeV4Address { flags, sequence, address }
    } else {
        let address = SocketAddrV6::new(source.array::<16>().into(), port, 0, 0);
        Frame::AlternativeV6Address { flags, sequence, address }
    }
}
