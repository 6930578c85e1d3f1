//! Bytes that live as long as the stack sends them.

use std::ffi::c_void;

use msquic::{BufferRef, Connection, DatagramSendState, SendFlags, Status, Stream};

/// Bytes with their descriptor, as the stack wants them.
struct Owned {
    buffer: [BufferRef; 1],
    // The descriptor points to these bytes, which stay where they are when the vector moves.
    _bytes: Vec<u8>,
}

impl Owned {
    fn new(bytes: Vec<u8>) -> *mut Self {
        Box::into_raw(Box::new(Self { buffer: [BufferRef::from(&bytes[..])], _bytes: bytes }))
    }
}

/// Sends bytes on a stream. The context of the completed send must be handed to `free`.
pub fn send(stream: &Stream, bytes: Vec<u8>, flags: SendFlags) -> Result<(), Status> {
    let owned = Owned::new(bytes);
    // SAFETY: the memory is freed only when the send has completed.
    let sent = unsafe { stream.send(&(*owned).buffer, flags, owned.cast::<c_void>().cast_const()) };
    // SAFETY: a send that was refused never completes.
    sent.inspect_err(|_| unsafe { free(owned.cast::<c_void>().cast_const()) })
}

/// Sends a datagram. The context of its last state must be handed to `free`.
pub fn send_datagram(connection: &Connection, bytes: Vec<u8>) -> Result<(), Status> {
    let owned = Owned::new(bytes);
    // SAFETY: the memory is freed only when the datagram has reached its last state.
    let sent = unsafe {
        connection.datagram_send(&(*owned).buffer, SendFlags::NONE, owned.cast::<c_void>().cast_const())
    };
    // SAFETY: a datagram that was refused has no states.
    sent.inspect_err(|_| unsafe { free(owned.cast::<c_void>().cast_const()) })
}

/// Frees what was sent.
///
/// # Safety
/// The context must be null or that of a send of this module, which has completed.
pub unsafe fn free(context: *const c_void) {
    if !context.is_null() {
        // SAFETY: every context is an `Owned`, and is handed over exactly once.
        drop(unsafe { Box::from_raw(context.cast_mut().cast::<Owned>()) });
    }
}

/// Takes note of a datagram's state, and frees it in its last one.
pub fn datagram_state(context: *const c_void, state: DatagramSendState) {
    let pending = [DatagramSendState::Unknown, DatagramSendState::Sent, DatagramSendState::LostSuspect];
    if !pending.contains(&state) {
        // SAFETY: the context is that of `send_datagram`, and no other state follows.
        unsafe { free(context) };
    }
}
