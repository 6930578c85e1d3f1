//! ECN results for `--json` of `perf client`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch::trace::{Frame, Frames, Observer, Time, TraceEvent};

/// Observer of the server's ECN counts and of their validation (RFC 9000 §13.4.2).
#[derive(Clone, Debug, Default)]
pub(super) struct EcnWatch {
    counted: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl EcnWatch {
    /// Returns whether the path supports ECN: the server counted marks, and validation has not failed.
    pub(super) fn is_capable(&self) -> bool {
        self.counted.load(Ordering::Relaxed) && !self.failed.load(Ordering::Relaxed)
    }
}

impl Observer for EcnWatch {
    fn event(&mut self, _: Time, event: &TraceEvent<'_>) {
        match event {
            TraceEvent::PacketReceived(packet) => {
                let mut frames = Frames::new(packet.payload, packet.direction).flatten();
                let counts =
                    |frame| matches!(frame, Frame::Ack(ack) if ack.ecn.is_some_and(|ecn| ecn.ect0 > 0));
                if frames.any(counts) {
                    self.counted.store(true, Ordering::Relaxed);
                }
            }
            TraceEvent::EcnState { capable: false, .. } => self.failed.store(true, Ordering::Relaxed),
            _ => {}
        }
    }
}
