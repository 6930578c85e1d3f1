//! Descriptors on a stream between two processes (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors of one message; Linux takes 253.
const MAX_AT_ONCE: usize = 64;

/// Sends bytes, and then descriptors.
pub(super) fn send(mut stream: &UnixStream, bytes: &[u8], descriptors: &[&OwnedFd]) -> io::Result<()> {
    stream.write_all(bytes)?;
    for some in descriptors.chunks(MAX_AT_ONCE) {
        let some: Vec<_> = some.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&some)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Descriptors need a byte that they go with.
        sendmsg(stream, &[IoSlice::new(&[some.len() as u8])], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives `len` bytes.
pub(super) fn receive_bytes(mut stream: &UnixStream, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Receives `count` descriptors.
pub(super) fn receive_descriptors(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_AT_ONCE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received =
            recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let before = all.len();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                all.extend(descriptors);
            }
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if all.len() - before != usize::from(byte[0]) || all.len() > count {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors were lost on the way"));
        }
    }
    Ok(all)
}
