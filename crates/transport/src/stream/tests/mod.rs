//! Two endpoints exchange packets of frames, without the rest of a connection.

mod exchange;
mod fragments;
mod lifecycle;
mod limits;
mod memory;
mod order;
mod unordered;
mod wrong_input;
mod zero_rtt;

use std::time::Duration;

use anabranch_wire::{
    Dir, Direction, Frame, Frames, PathId, Side, StreamId, Time, TransportParameters, Writer,
};
use bytes::Bytes;
use smallvec::SmallVec;

use super::*;
use crate::flow::WindowRule;
use crate::schedule::{Carrier, Kinds};
use crate::token::{Token, Tokens};

const RTT: Duration = Duration::from_millis(50);

/// Frames in flight, and their tokens.
#[derive(Clone, Debug)]
struct Packet {
    frames: Vec<u8>,
    tokens: Tokens,
}

impl Packet {
    fn frames(&self) -> Vec<Frame<'_>> {
        Frames::new(&self.frames, Direction::Forward).map(Result::unwrap).collect()
    }
}

fn config() -> StreamsConfig {
    StreamsConfig {
        max_bidi: 10,
        max_uni: 10,
        stream_window: 1000,
        stream_window_max: 1000,
        connection_window: 5000,
        connection_window_max: 5000,
        send_buffer: 1 << 20,
        window_rule: WindowRule::Adaptive,
    }
}

/// Returns the transport parameters of an endpoint with this configuration.
fn parameters(config: &StreamsConfig) -> TransportParameters {
    let mut parameters = TransportParameters::default();
    parameters.initial_max_data = config.connection_window;
    parameters.initial_max_stream_data_bidi_local = config.stream_window;
    parameters.initial_max_stream_data_bidi_remote = config.stream_window;
    parameters.initial_max_stream_data_uni = config.stream_window;
    parameters.initial_max_streams_bidi = config.max_bidi;
    parameters.initial_max_streams_uni = config.max_uni;
    parameters
}

fn streams(side: Side, config: &StreamsConfig) -> Streams {
    let mut streams = Streams::new(side, config, side as u64);
    streams.set_peer_parameters(&parameters(config)).unwrap();
    streams
}

fn pair(config: &StreamsConfig) -> (Streams, Streams) {
    (streams(Side::Client, config), streams(Side::Server, config))
}

/// Returns a packet of at most `size` bytes; `None` if there is nothing to send.
fn send(from: &mut Streams, size: usize) -> Option<Packet> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf, Direction::Forward);
    let mut tokens = Tokens::new();
    from.write_control(&mut w, &mut tokens);
    from.write_data(
        &Carrier {
            path: PathId::ZERO,
            working: SmallVec::new(),
            kinds: Kinds::ALL,
            patience: crate::schedule::Patience::default(),
        },
        &mut w,
        &mut tokens,
    );
    let frames = w.written().to_vec();
    assert_eq!(frames.is_empty(), tokens.is_empty());
    (!frames.is_empty()).then_some(Packet { frames, tokens })
}

fn receive(to: &mut Streams, now: Time, frame: &Frame<'_>) -> Result<(), TransportError> {
    match *frame {
        Frame::Stream(ref frame) => to.on_stream(now, RTT, frame)?,
        Frame::ResetStream { id, code, final_size } => to.on_reset_stream(id, code, final_size)?,
        Frame::StopSending { id, code } => to.on_stop_sending(id, code)?,
        Frame::MaxData(maximum) => to.on_max_data(maximum),
        Frame::MaxStreamData { id, maximum } => to.on_max_stream_data(id, maximum)?,
        Frame::MaxStreams { dir, maximum } => to.on_max_streams(dir, maximum),
        Frame::DataBlocked(_) => to.on_data_blocked(),
        Frame::StreamDataBlocked { id, .. } => to.on_stream_data_blocked(id)?,
        Frame::StreamsBlocked { dir, .. } => to.on_streams_blocked(dir),
        other => panic!("not a stream's frame: {other:?}"),
    }
    Ok(())
}

fn deliver(to: &mut Streams, packet: &Packet) {
    for frame in packet.frames() {
        receive(to, Time::ZERO, &frame).unwrap();
    }
}

fn acked(from: &mut Streams, packet: &Packet) {
    packet.tokens.iter().for_each(|token| from.on_acked(token));
}

fn lost(from: &mut Streams, packet: &Packet) {
    packet.tokens.iter().for_each(|token| from.on_lost(token));
}

/// Delivers and acknowledges everything in both directions until neither endpoint has anything to send.
fn exchange(a: &mut Streams, b: &mut Streams) {
    loop {
        let (from_a, from_b) = (send(a, 1200), send(b, 1200));
        if from_a.is_none() && from_b.is_none() {
            return;
        }
        if let Some(packet) = from_a {
            deliver(b, &packet);
            acked(a, &packet);
        }
        if let Some(packet) = from_b {
            deliver(a, &packet);
            acked(b, &packet);
        }
    }
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

/// Reads all readable bytes. Also returns the error with which reading ended.
fn read(streams: &mut Streams, id: StreamId) -> (Vec<u8>, ReadError) {
    let mut data = Vec::new();
    loop {
        match streams.peek(id) {
            Ok(bytes) => {
                let n = bytes.len();
                assert!(n > 0);
                data.extend_from_slice(bytes);
                streams.consume(id, n).unwrap();
            }
            Err(error) => return (data, error),
        }
    }
}

fn stream_frame(id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(anabranch_wire::Stream { id, offset, fin, data })
}

const fn id(side: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(side, dir, index)
}
