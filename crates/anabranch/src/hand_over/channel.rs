//! Channel between the drivers of two processes.

use std::io;
use std::io::ErrorKind::{ConnectionReset, Interrupted, WouldBlock};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::message::{MAX_MESSAGE, Message, decode};

/// Maximum memory of the messages that one side has sent and the other one has not received yet, in bytes, as far as the system
/// allows so much. Further datagrams are dropped, as a full socket would.
const MAX_CHANNEL: usize = 1 << 20;

/// Creates the two ends of a channel. It keeps messages apart and in order, and tells each end when the other one is gone.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&one, &other] {
        // The kernel may grant less, which only means that more is dropped under load.
        let _ = sockopt::set_socket_send_buffer_size(end, MAX_CHANNEL);
    }
    Ok((one, other))
}

/// One end of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// Sequenced packets are received like datagrams, except that their end is told.
    io: UnixDatagram,
    buffer: Vec<u8>,
}

impl Channel {
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        Ok(Self { io: UnixDatagram::from_std(end.into())?, buffer: vec![0; MAX_MESSAGE] })
    }

    /// Sends a message. Returns whether it was sent: it is not if the channel is full, or the other end is gone.
    pub(super) fn send(&self, message: &[u8]) -> bool {
        send(&self.io, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
    }

    /// Receives the next message. Fails once the other end is gone.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Message>>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let buffer = &mut self.buffer[..];
            let received =
                self.io.try_io(Interest::READABLE, || Ok(recv(&self.io, buffer, RecvFlags::DONTWAIT)?.0));
            match received {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(len) => return Poll::Ready(Ok(decode(&self.buffer[..len]))),
                // The other end was closed with messages unread: those that it has sent come first, then the end.
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted | ConnectionReset) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::super::message::notice;
    use super::*;

    #[tokio::test]
    async fn a_channel_keeps_order_and_has_an_end() {
        let (one, other) = pair().unwrap();
        let (one, mut other) = (Channel::new(one).unwrap(), Channel::new(other).unwrap());
        assert!(one.send(&notice(&Message::Serving)) && one.send(&notice(&Message::Older(2))));
        let mut next = async || poll_fn(|cx| other.poll_receive(cx)).await;
        assert_eq!(next().await.unwrap(), Some(Message::Serving));
        assert_eq!(next().await.unwrap(), Some(Message::Older(2)));
        drop(one);
        assert!(next().await.is_err());
        assert!(!other.send(&[0]));
    }

    /// A process that reads nothing costs a bounded memory, and never the time of the sender (`MAX_CHANNEL`).
    #[tokio::test]
    async fn a_full_channel_drops() {
        let (one, _other) = pair().unwrap();
        let one = Channel::new(one).unwrap();
        let sent = (0..10_000).take_while(|_| one.send(&[3; 1200])).count();
        assert!((20..=2 * MAX_CHANNEL / 1200).contains(&sent), "{sent}");
    }
}
