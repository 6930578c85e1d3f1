//! Line-by-line log of the connections' events, for debugging.

use anabranch_transport::Handle;
use anabranch_transport::trace::{Observer, PacketTrace, TraceEvent};
use anabranch_wire::{Frame, Frames, Stream, Time};

use crate::network::HostId;

/// Observer that prints one connection's events to standard error.
#[derive(Debug)]
pub(crate) struct Log {
    host: HostId,
    handle: Handle,
}

impl Log {
    pub(crate) fn new(host: HostId, handle: Handle) -> Self {
        Self { host, handle }
    }

    fn packet(packet: &PacketTrace<'_>) -> String {
        let frames: Vec<String> = Frames::new(packet.payload, packet.direction)
            .map(|frame| match frame {
                Ok(Frame::Stream(Stream { id, offset, fin, data })) => {
                    format!("Stream {id} {offset}+{}{}", data.len(), if fin { " fin" } else { "" })
                }
                Ok(Frame::Crypto { offset, data }) => format!("Crypto {offset}+{}", data.len()),
                Ok(Frame::Ack(ack)) => format!("Ack {:?}", ack.ranges().collect::<Vec<_>>()),
                Ok(frame) => format!("{frame:?}"),
                Err(error) => format!("{error:?}"),
            })
            .collect();
        let PacketTrace { kind, number, path, size, .. } = packet;
        format!("{kind:?} {number} path {path} {size} B: {}", frames.join(", "))
    }
}

impl Observer for Log {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        let text = match event {
            TraceEvent::PacketSent(packet) => format!("> {}", Self::packet(packet)),
            TraceEvent::PacketReceived(packet) => format!("< {}", Self::packet(packet)),
            other => format!("{other:?}"),
        };
        let seconds = time.as_nanos() as f64 / 1e9;
        eprintln!("{seconds:.6} {}/{} {text}", self.host.0, self.handle.0);
    }
}
