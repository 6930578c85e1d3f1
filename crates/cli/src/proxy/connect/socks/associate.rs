//! UDP ASSOCIATE (RFC 1928 §7): a socket for the datagrams of one program, which is open as long as the
//! program's TCP connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch::proxy::client::Target;
use fast_socks5::server::{ErrorContext, SocksServerError};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::net::{TcpStream, UdpSocket};

use super::super::Shared;
use super::super::flows::{self, Flows, Terms};
use super::{Asking, Ends, reply, target};

/// Serves an association. `announced` is DST.ADDR and DST.PORT of the request: the address from which the
/// program will send datagrams, or zeros if the program does not know it.
pub(super) async fn serve(
    asking: Asking,
    announced: &TargetAddr,
    ends: Ends,
    shared: &Shared,
) -> Result<(), SocksServerError> {
    match shared.client.proxy().carries_udp().await {
        Ok(true) => {}
        Ok(false) => return asking.reply_error(&ReplyError::CommandNotSupported).await,
        Err(error) => return asking.reply_error(&reply(&error)).await,
    }
    let binding = "binding a socket for an association";
    let socket = flows::bind((ends.local.ip(), 0).into()).await.err_when(binding)?;
    let address = socket.local_addr().err_when(binding)?;
    let program = asking.reply_success(address).await?;
    let port = match announced {
        TargetAddr::Ip(address) => Some(address.port()).filter(|port| *port != 0),
        TargetAddr::Domain(..) => None,
    };
    let terms = Terms { client: shared.client.clone(), idle: shared.idle };
    let association = Association { socket: Arc::new(socket), peer: ends.peer, port };
    tokio::select! {
        failed = association.carry(terms) => failed.err_when("reading the datagrams of an association"),
        () = ended(&program) => Ok(()),
    }
}

struct Association {
    socket: Arc<UdpSocket>,
    /// Remote address of the program's TCP connection. Datagrams from other IP addresses are dropped.
    peer: SocketAddr,
    /// Port from which the program sends: the announced one, or that of its first valid datagram.
    port: Option<u16>,
}

impl Association {
    async fn carry(mut self, terms: Terms) -> io::Result<()> {
        let mut flows: Flows<Target> = Flows::new();
        loop {
            let (datagram, from) = flows::receive(&self.socket).await?;
            let is_of_program = from.ip().to_canonical() == self.peer.ip().to_canonical()
                && self.port.is_none_or(|port| port == from.port());
            if !is_of_program {
                continue;
            }
            // RFC 1928 §7: an implementation that does not support fragmentation drops fragments.
            let Ok((0, address, payload)) = parse_udp_request(&datagram).await else { continue };
            let Some(target) = target(&address) else { continue };
            self.port = Some(from.port());
            let payload = datagram.slice_ref(payload);
            flows.pass(&target, payload, |inbox| {
                let (socket, terms, target) = (Arc::clone(&self.socket), terms.clone(), target.clone());
                // Datagrams to the program have the target's address as the program wrote it.
                let header = Arc::new(new_udp_header(address.clone()).unwrap_or_default());
                flows::carry(terms, target, inbox, move |payload| {
                    let (socket, header) = (Arc::clone(&socket), Arc::clone(&header));
                    async move {
                        // If the program has ended, so has its TCP connection, which ends the association.
                        let _ = socket.send_to(&[&header[..], &payload].concat(), from).await;
                    }
                })
            });
        }
    }
}

/// Waits until the program closes its TCP connection. Bytes that it sends are ignored.
async fn ended(program: &TcpStream) {
    let mut ignored = [0; 64];
    loop {
        if program.readable().await.is_err() {
            return;
        }
        match program.try_read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
