//! Invariants of the frames of any payload, in both directions.

use anabranch_wire::{Direction, Frame, Frames, Writer};

pub(crate) fn run(data: &[u8]) {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut failed = false;
        for frame in Frames::new(data, direction) {
            assert!(!failed, "nothing follows an error");
            match frame {
                Ok(frame) => again(&frame),
                Err(error) => {
                    assert!(!error.reason.is_empty());
                    failed = true;
                }
            }
        }
    }
}

/// Checks that the frame has its declared size when it is written in either direction, and reads as the same
/// frame.
fn again(frame: &Frame<'_>) {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut buf = vec![0; frame.size()];
        let mut writer = Writer::new(&mut buf, direction);
        writer.frame(frame).expect("a frame fits into its size");
        assert_eq!(writer.remaining(), 0);
        let mut frames = Frames::new(&buf, direction);
        let read = frames.next().expect("there is a frame").expect("it is well-formed");
        assert!(frames.next().is_none());
        match (frame, &read) {
            (Frame::Ack(a), Frame::Ack(b)) => {
                assert_eq!((a.path, a.largest, a.delay, a.ecn), (b.path, b.largest, b.delay, b.ecn));
                assert!(a.ranges().eq(b.ranges()));
                assert!(
                    a.ranges().zip(a.ranges().skip(1)).all(|(above, below)| below.end() + 1 < *above.start())
                );
            }
            (a, b) => assert_eq!(a, b),
        }
    }
}
