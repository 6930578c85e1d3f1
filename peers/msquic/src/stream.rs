//! Sends the static pattern, with a limit on the bytes that the stack holds.

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;

use msquic::{BufferRef, SendFlags, Status, StreamRef};
use peer_common::PATTERN;

/// Number of buffers in one send: 1 MiB.
const BUFFERS: u64 = 16;

/// Minimum limit of the bytes that the stack holds. The stack may request more.
const IN_FLIGHT: u64 = 4 << 20;

/// Buffer descriptors of the pattern, which live as long as the process.
struct Pattern([BufferRef; BUFFERS as usize]);

// SAFETY: the descriptors point to an immutable static and are never changed.
unsafe impl Sync for Pattern {}
// SAFETY: as above.
unsafe impl Send for Pattern {}

static BUFFER: LazyLock<Pattern> =
    LazyLock::new(|| Pattern(std::array::from_fn(|_| BufferRef::from(&PATTERN[..]))));

/// Descriptor of the last, shorter buffer of the pattern.
type Tail = Box<[BufferRef; 1]>;

/// Data that a stream still has to send.
pub struct Sending {
    left: u64,
    in_flight: u64,
    ideal: u64,
    /// `true` if the stream ends after the data.
    pub end: bool,
    ended: bool,
}

impl Sending {
    /// Creates the state for `count` bytes of the pattern, followed by the end of the stream if `end`.
    pub fn new(count: u64, end: bool) -> Self {
        Self { left: count, in_flight: 0, ideal: IN_FLIGHT, end, ended: false }
    }

    /// Sets the number of bytes that the stack would like to hold.
    pub fn ideal(&mut self, bytes: u64) {
        self.ideal = bytes.max(IN_FLIGHT);
    }

    /// Passes data to the stack, up to the limit.
    pub fn push(&mut self, stream: &StreamRef) -> Result<(), Status> {
        let whole = PATTERN.len() as u64;
        while self.left > 0 && self.in_flight < self.ideal {
            let buffers = (self.left / whole).min(BUFFERS);
            if buffers > 0 {
                let bytes = buffers * whole;
                self.hand_over(stream, &BUFFER.0[..buffers as usize], bytes, ptr::null_mut())?;
            } else {
                let tail: Tail = Box::new([BufferRef::from(&PATTERN[..self.left as usize])]);
                let tail = Box::into_raw(tail);
                // SAFETY: allocated above, and freed only when its send completes.
                let buffer = unsafe { &*tail };
                self.hand_over(stream, buffer, self.left, tail)?;
            }
        }
        if self.left == 0 && self.end && !self.ended {
            self.ended = true;
            stream.shutdown(msquic::StreamShutdownFlags::GRACEFUL, 0)?;
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        stream: &StreamRef,
        buffers: &[BufferRef],
        bytes: u64,
        tail: *mut [BufferRef; 1],
    ) -> Result<(), Status> {
        let context = Box::into_raw(Box::new(Sent { bytes, tail }));
        self.left -= bytes;
        self.in_flight += bytes;
        // SAFETY: the descriptors and their buffers live until the send completes: they are static, or freed
        // by `completed`.
        unsafe { stream.send(buffers, SendFlags::NONE, context.cast::<c_void>().cast_const()) }
    }

    /// Subtracts a completed send from the bytes that the stack holds, and frees its memory.
    pub fn completed(&mut self, context: *const c_void) {
        if context.is_null() {
            return;
        }
        // SAFETY: every non-null context is a `Sent` of `hand_over`, and is passed here exactly once.
        let sent = unsafe { Box::from_raw(context.cast_mut().cast::<Sent>()) };
        if !sent.tail.is_null() {
            // SAFETY: allocated by `push`, and used by no other send.
            drop(unsafe { Box::from_raw(sent.tail) });
        }
        self.in_flight -= sent.bytes;
    }
}

/// Size and memory of one send.
struct Sent {
    bytes: u64,
    tail: *mut [BufferRef; 1],
}
