//! Messages from the network about datagrams that were sent.

use std::io;
use std::net::SocketAddr;

/// A datagram that could not be delivered.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Destination of the datagram.
    pub(crate) to: SocketAddr,
    /// Reason, as the system's error.
    pub(crate) error: io::Error,
    /// The beginning of its payload, as far as the message quotes it.
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

    /// Messages taken at once, most; what there is beyond that comes next.
    const MESSAGES: usize = 64;
    /// Bytes of a quoted datagram that are looked at.
    const QUOTED: usize = 128;
    /// A datagram longer than the path's MTU, which is no reason to give up.
    const EMSGSIZE: i32 = 90;

    impl Socket {
        pub(crate) fn report_errors(&self, wanted: bool) {
            // What is not possible is not missed: errors then come as timeouts.
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

        /// Takes the next message; `None` for one without a meaning.
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

    /// Waits forever, since nothing is ever reported.
    pub(crate) async fn refusals(&self) -> io::Result<Vec<Refusal>> {
        std::future::pending().await
    }
}
