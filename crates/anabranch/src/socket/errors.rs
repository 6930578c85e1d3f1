//! ICMP messages about datagrams that were sent.

use std::io;
use std::net::SocketAddr;

/// Report of a datagram that could not be delivered.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Destination of the datagram.
    pub(crate) to: SocketAddr,
    /// Reason, as the system's error.
    pub(crate) error: io::Error,
    /// Beginning of the datagram's payload, as far as the message quotes it.
    pub(crate) quoted: Vec<u8>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::io::{self, IoSliceMut};
    use std::net::SocketAddr;
    use std::os::fd::{AsFd, AsRawFd};

    use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
    use tokio::io::Interest;

    use super::Refusal;
    use crate::socket::Socket;

    /// Maximum number of messages that are read at once; the next call reads the rest.
    const MESSAGES: usize = 64;
    /// Maximum number of bytes of a quoted datagram that are read.
    const QUOTED: usize = 128;
    /// Error for a datagram that exceeds the path's MTU. It does not mean that the peer is unreachable.
    const EMSGSIZE: i32 = 90;

    impl Socket {
        pub(crate) fn report_errors(&self, wanted: bool) {
            // If the option is not available, an unreachable server leads to a timeout instead.
            let _ = setsockopt(&self.io.as_fd(), Ipv4RecvErr, &wanted);
            if self.local.is_ipv6() {
                let _ = setsockopt(&self.io.as_fd(), Ipv6RecvErr, &wanted);
            }
        }

        /// Waits for messages.
        pub(crate) async fn refusals(&self) -> io::Result<Vec<Refusal>> {
            loop {
                self.io.ready(Interest::ERROR).await?;
                match self.io.try_io(Interest::ERROR, || self.take_refusals()) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    taken => return taken,
                }
            }
        }

        fn take_refusals(&self) -> io::Result<Vec<Refusal>> {
            let mut taken = Vec::new();
            for _ in 0..MESSAGES {
                match self.take_refusal() {
                    Ok(refusal) => taken.extend(refusal),
                    Err(error) if taken.is_empty() => return Err(error),
                    Err(_) => break,
                }
            }
            Ok(taken)
        }

        /// Reads the next message; `None` for one that reports no failure to deliver.
        fn take_refusal(&self) -> io::Result<Option<Refusal>> {
            let mut quoted = [0; QUOTED];
            let mut control = nix::cmsg_space!([u8; 256]);
            let mut slices = [IoSliceMut::new(&mut quoted)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let message =
                recvmsg::<SockaddrStorage>(self.io.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
            let code = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    i32::try_from(error.ee_errno).ok()
                }
                _ => None,
            });
            let to = message.address.as_ref().and_then(address);
            let (Some(code), Some(to)) = (code.filter(|code| *code != EMSGSIZE), to) else {
                return Ok(None);
            };
            let len = message.bytes;
            let error = io::Error::from_raw_os_error(code);
            Ok(Some(Refusal { to, error, quoted: quoted[..len.min(QUOTED)].to_vec() }))
        }
    }

    fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), v4.port()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port())))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl super::Socket {
    pub(crate) fn report_errors(&self, _wanted: bool) {}

    /// Waits forever, since such messages are never reported here.
    pub(crate) async fn refusals(&self) -> io::Result<Vec<Refusal>> {
        std::future::pending().await
    }
}
