use proptest::prelude::*;

use super::*;

fn pattern(range: Range<u64>) -> Vec<u8> {
    range.map(|offset| (offset % 251) as u8).collect()
}

/// Expected state of every byte of a send buffer.
#[derive(Default)]
struct Model {
    written: u64,
    sent: u64,
    acked: Vec<bool>,
    lost: Vec<bool>,
}

impl Model {
    fn base(&self) -> u64 {
        self.acked.iter().take_while(|&&acked| acked).count() as u64
    }

    fn lost_count(&self) -> u64 {
        self.lost.iter().filter(|&&lost| lost).count() as u64
    }

    fn check(&self, buffer: &SendBuffer) {
        assert_eq!(buffer.end(), self.written);
        assert_eq!(buffer.unsent(), self.sent);
        assert_eq!(buffer.buffered(), self.written - self.base());
        assert_eq!(buffer.pending(), self.written - self.sent + self.lost_count());
        assert_eq!(buffer.is_all_acked(), self.base() == self.written);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64),
    WriteBytes(u64),
    Send(u64),
    Ack(u64, u64),
    Lose(u64, u64),
    Rewind,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u64..3000).prop_map(Op::Write),
        3 => (1u64..3000).prop_map(Op::WriteBytes),
        9 => (1u64..1500).prop_map(Op::Send),
        6 => (0u64..9000, 1u64..2000).prop_map(|(start, len)| Op::Ack(start, len)),
        4 => (0u64..9000, 1u64..2000).prop_map(|(start, len)| Op::Lose(start, len)),
        1 => Just(Op::Rewind),
    ]
}

fn send(buffer: &mut SendBuffer, model: &mut Model, max: u64) {
    let Some(range) = buffer.next(u64::MAX) else {
        assert_eq!(buffer.pending(), 0);
        return;
    };
    let range = range.start..range.end.min(range.start + max);
    let is_new = range.start == model.sent;
    assert_eq!(is_new, model.lost_count() == 0, "lost data goes first");
    for offset in range.clone() {
        assert!(is_new || model.lost[offset as usize], "{offset} is neither new nor lost");
    }
    let mut packet = vec![0; (range.end - range.start) as usize];
    buffer.copy_to(range.start, &mut packet);
    assert_eq!(packet, pattern(range.clone()));
    buffer.mark_sent(range.clone());
    if is_new {
        model.sent = range.end;
    } else {
        model.lost[range.start as usize..range.end as usize].fill(false);
    }
}

proptest! {
    #[test]
    fn behaves_like_an_array(ops in prop::collection::vec(op(), 1..80)) {
        let mut buffer = SendBuffer::default();
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Write(len) => {
                    buffer.write(&pattern(model.written..model.written + len));
                    model.written += len;
                }
                Op::WriteBytes(len) => {
                    buffer.write_bytes(pattern(model.written..model.written + len).into());
                    model.written += len;
                }
                Op::Send(max) => send(&mut buffer, &mut model, max),
                Op::Ack(start, len) => {
                    let before = model.base();
                    for offset in (start..start + len).filter(|offset| *offset < model.sent) {
                        model.acked[offset as usize] = true;
                        model.lost[offset as usize] = false;
                    }
                    prop_assert_eq!(buffer.ack(start..start + len), model.base() - before);
                }
                Op::Lose(start, len) => {
                    for offset in (start..start + len).filter(|offset| *offset < model.sent) {
                        model.lost[offset as usize] |= !model.acked[offset as usize];
                    }
                    buffer.lose(start..start + len);
                }
                // 0-RTT is refused as a whole, so none of it was acknowledged.
                Op::Rewind if model.acked.contains(&true) => {}
                Op::Rewind => {
                    buffer.rewind();
                    model.sent = 0;
                    model.lost.fill(false);
                }
            }
            model.acked.resize(model.written as usize, false);
            model.lost.resize(model.written as usize, false);
            model.check(&buffer);
        }
        while buffer.pending() > 0 {
            send(&mut buffer, &mut model, 1200);
        }
        buffer.ack(0..model.written);
        prop_assert!(buffer.is_all_acked());
        prop_assert!(buffer.chunks.is_empty(), "acknowledged chunks are released");
    }
}

#[test]
fn new_data_stops_at_the_limit() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[7; 100]);
    assert_eq!(buffer.next(0), None);
    assert_eq!(buffer.next(60), Some(0..60));
    buffer.mark_sent(0..60);
    assert_eq!(buffer.next(60), None);
    buffer.lose(10..20);
    assert_eq!(buffer.next(60), Some(10..20), "lost data has its credit");
}

#[test]
fn small_writes_share_growing_chunks() {
    let mut buffer = SendBuffer::default();
    for _ in 0..200_000 {
        buffer.write(b"x");
    }
    assert!(buffer.chunks.len() < 25, "{} chunks", buffer.chunks.len());
    assert!(buffer.chunks.iter().all(|(_, chunk)| chunk.len() <= MAX_CHUNK));
    let mut tiny = SendBuffer::default();
    tiny.write(b"GET /");
    assert!(tiny.tail.capacity() <= 64, "a tiny stream stays tiny");
}

#[test]
fn large_bytes_are_not_copied() {
    let data = Bytes::from(vec![1; 4096]);
    let mut buffer = SendBuffer::default();
    buffer.write(b"header");
    buffer.write_bytes(data.clone());
    assert_eq!(buffer.chunks[1].1.as_ptr(), data.as_ptr());
    let mut all = vec![0; 4102];
    buffer.copy_to(0, &mut all);
    assert_eq!(&all[..6], b"header");
    assert!(all[6..].iter().all(|&byte| byte == 1));
}

#[test]
fn a_discarded_buffer_keeps_the_final_size() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[0; 100]);
    buffer.mark_sent(0..70);
    buffer.ack(0..20);
    buffer.lose(30..40);
    assert_eq!(buffer.discard(), 80);
    assert_eq!((buffer.unsent(), buffer.end(), buffer.pending(), buffer.buffered()), (70, 70, 0, 0));
}
