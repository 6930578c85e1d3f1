//! systemd: the sockets that it passes (`LISTEN_FDS`), and notifications to it (`NOTIFY_SOCKET`).

use std::net::{TcpListener, UdpSocket};

use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::exit::{Exit, Failure, Result, note};

/// Maximum number of sockets that are taken.
const MAX_PASSED: usize = 64;

/// Returns the UDP and TCP sockets that systemd passed to this process, if any.
pub(super) fn sockets() -> Result<(Vec<UdpSocket>, Vec<TcpListener>)> {
    let mut passed = ListenFd::from_env();
    let (mut for_udp, mut for_tcp) = (Vec::new(), Vec::new());
    if passed.len() > MAX_PASSED {
        return Err(Failure::new(Exit::Usage, format!("systemd passes more than {MAX_PASSED} sockets")));
    }
    for at in 0..passed.len() {
        // A socket of another kind is not taken.
        match (passed.take_udp_socket(at), passed.take_tcp_listener(at)) {
            (Ok(Some(udp)), _) => for_udp.push(udp),
            (_, Ok(Some(tcp))) => for_tcp.push(tcp),
            _ => {
                let what = format!("socket {at} that systemd passes is neither for UDP nor for TCP");
                return Err(Failure::new(Exit::Usage, what));
            }
        }
    }
    Ok((for_udp, for_tcp))
}

/// Notifies systemd that the server accepts connections.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// Notifies systemd that the server is stopping.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Notifies systemd of the state. Does nothing if systemd did not start the process.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        note(format_args!("anabranch: cannot notify systemd: {error}"));
    }
}
