//! SOCKS5 (RFC 1928, RFC 1929) for programs.

mod associate;

use std::net::SocketAddr;

use anabranch::proxy::client::{RefusalKind, Target, TunnelError};
use bytes::Bytes;
use fast_socks5::server::{ErrorContext, Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::local::MAX_HELLO;
use super::{Shared, stream};

/// Connection of a program whose command was read and has no reply yet.
type Asking = Socks5ServerProtocol<TcpStream, states::CommandRead>;

/// Addresses of a program's TCP connection.
#[derive(Clone, Copy, Debug)]
struct Ends {
    local: SocketAddr,
    peer: SocketAddr,
}

/// Serves the connection of a program.
pub(super) async fn serve(program: TcpStream, shared: &Shared) {
    if let Err(error) = converse(program, shared).await {
        debug!(target: "anabranch::proxy", %error, "SOCKS");
    }
}

async fn converse(program: TcpStream, shared: &Shared) -> Result<(), SocksServerError> {
    let addresses = program.local_addr().and_then(|local| Ok(Ends { local, peer: program.peer_addr()? }));
    let ends = addresses.err_when("asking for a program's address")?;
    let Ok(hello) = timeout(MAX_HELLO, hello(program, shared)).await else { return Ok(()) };
    let (asking, command, address) = hello?;
    match command {
        Socks5Command::TCPConnect => connect(asking, &address, shared).await,
        Socks5Command::UDPAssociate => associate::serve(asking, &address, ends, shared).await,
        Socks5Command::TCPBind => asking.reply_error(&ReplyError::CommandNotSupported).await,
    }
}

async fn hello(
    program: TcpStream,
    shared: &Shared,
) -> Result<(Asking, Socks5Command, TargetAddr), SocksServerError> {
    let protocol = match &shared.guard {
        Some(guard) => {
            let admits = |name: String, password: String| guard.admits(&name, &password);
            Socks5ServerProtocol::accept_password_auth(program, admits).await?.0
        }
        None => Socks5ServerProtocol::accept_no_auth(program).await?,
    };
    protocol.read_command().await
}

async fn connect(asking: Asking, address: &TargetAddr, shared: &Shared) -> Result<(), SocksServerError> {
    let Some(target) = target(address) else {
        return asking.reply_error(&ReplyError::HostUnreachable).await;
    };
    match stream::open(&shared.client, &target).await {
        Ok(tunnel) => {
            // BND.ADDR and BND.PORT are zeros, because the client does not know the address of the proxy's
            // socket.
            let program = asking.reply_success(([0, 0, 0, 0], 0).into()).await?;
            tunnel.carry(program, Bytes::new()).await;
            Ok(())
        }
        Err(error) => asking.reply_error(&reply(&error)).await,
    }
}

/// Returns the target of a command; `None` if it is invalid.
fn target(address: &TargetAddr) -> Option<Target> {
    match address {
        TargetAddr::Ip(address) if address.port() != 0 => Some(Target::from(*address)),
        TargetAddr::Ip(_) => None,
        TargetAddr::Domain(name, port) => Target::new(name, *port).ok(),
    }
}

/// Returns the reply (RFC 1928 §6) that corresponds best to an error.
fn reply(error: &TunnelError) -> ReplyError {
    match error {
        TunnelError::Refused(refusal) => match refusal.kind() {
            RefusalKind::Denied => ReplyError::ConnectionNotAllowed,
            RefusalKind::NameNotFound | RefusalKind::Unreachable => ReplyError::HostUnreachable,
            RefusalKind::ConnectionRefused => ReplyError::ConnectionRefused,
            RefusalKind::TimedOut => ReplyError::TtlExpired,
            RefusalKind::Unsupported => ReplyError::CommandNotSupported,
            _ => ReplyError::GeneralFailure,
        },
        TunnelError::Unavailable(_) => ReplyError::NetworkUnreachable,
        TunnelError::TimedOut(_) => ReplyError::TtlExpired,
        TunnelError::NoUdp => ReplyError::CommandNotSupported,
        _ => ReplyError::GeneralFailure,
    }
}
