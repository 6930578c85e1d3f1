//! systemd: the sockets that it passes (`LISTEN_FDS`), and what it wants to know (`NOTIFY_SOCKET`).

use std::net::{TcpListener, UdpSocket};

use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::exit::{Exit, Failure, Result, note};

/// Most sockets that are taken.
const MAX_PASSED: usize = 64;

/// Takes the sockets that systemd passes to this process, if any: those for UDP and those for TCP.
pub(super) fn sockets() -> Result<(Vec<UdpSocket>, Vec<TcpListener>)> {
    let mut passed = ListenFd::from_env();
    let (mut for_udp, mut for_tcp) = (Vec::new(), Vec::new());
    if passed.len() > MAX_PASSED {
        return Err(Failure::new(Exit::Usage, format!("systemd passes more than {MAX_PASSED} sockets")));
    }
    for at in 0..passed.len() {
        // What is of another kind stays where it is.
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

/// Tells systemd that connections are accepted.
pub(super) fn ready() {
    tell(NotifyState::Ready);
}

/// Tells systemd that connections are no longer accepted.
pub(super) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Tells systemd the state; outside of systemd there is nobody to tell.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        note(format_args!("anabranch: cannot notify systemd: {error}"));
    }
}
