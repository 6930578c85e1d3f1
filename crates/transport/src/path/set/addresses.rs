//! Present, previous and probed addresses of paths.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_wire::{ConnectionId, PacketKind, PathId, SpaceId};

use super::PathSet;
use crate::context::Context;
use crate::datagram_io::FourTuple;
use crate::path::Path;

/// Minimum time without any packet that counts as silence. On working networks, a filling queue or a burst of
/// other traffic delays packets and acknowledgments by up to this much.
pub(crate) const MIN_SILENCE: Duration = Duration::from_millis(80);

/// Offset of the Destination Connection ID in a long header, after flags, version and length.
pub(crate) const DCID_AT: usize = 6;

/// Reasons why this end cannot migrate to another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Servers do not migrate (RFC 9000 §9).
    #[error("only a client may migrate")]
    Server,
    /// The handshake must be confirmed before a migration (RFC 9000 §9).
    #[error("the handshake is not confirmed yet")]
    NotConfirmed,
    /// The peer has sent `disable_active_migration`.
    #[error("the server does not allow migration")]
    Forbidden,
    /// The peer has issued no unused connection ID.
    #[error("no connection ID of the server is left for another address")]
    NoConnectionId,
}

impl PathSet {
    /// Returns whether a datagram that begins with these bytes may be one of this client's first datagrams.
    /// The Destination Connection ID is compared if `beginning` contains it (RFC 8999 §5.1).
    pub(crate) fn has_sent(&self, beginning: &[u8]) -> bool {
        let dcid = self.list.main().remote_cids.active();
        match beginning.get(DCID_AT..DCID_AT + dcid.len()) {
            Some(quoted) => quoted == &*dcid,
            None => true,
        }
    }

    /// Returns whether the path uses these addresses, or is validating them.
    pub(crate) fn is_asked(&self, id: PathId, local: IpAddr, remote: SocketAddr) -> bool {
        let same = |tuple: &FourTuple| {
            tuple.local.ip().to_canonical() == local
                && tuple.remote.ip().to_canonical() == remote.ip().to_canonical()
                && tuple.remote.port() == remote.port()
        };
        let path = self.list.get(id);
        path.is_some_and(|path| {
            same(&path.tuple) || path.address.validations.iter().any(|one| same(&one.tuple))
        })
    }

    /// Returns whether packets are sent from this address, or responses to earlier packets may still arrive
    /// there.
    pub(crate) fn uses_local(&self, local: SocketAddr) -> bool {
        self.list.iter().any(|path| {
            path.tuple.local == local
                || path.address.validations.iter().any(|one| one.tuple.local == local)
                || path.address.previous.as_ref().is_some_and(|previous| previous.tuple.local == local)
        })
    }

    /// Returns the time without packets after which the main path counts as silent.
    pub(crate) fn least_silence(&self) -> Duration {
        self.list.main().recovery.pto(SpaceId::Data).max(MIN_SILENCE)
    }

    /// Reserves a connection ID of the peer for `tuple`, other addresses of the main path: the ID of the
    /// pending validation of `tuple`, which is removed, or an unused ID.
    pub(crate) fn take_cid_for(&mut self, tuple: &FourTuple) -> Result<(u64, ConnectionId), MigrateError> {
        let id = self.list.main().id;
        self.stock(id);
        let path = self.list.main_mut();
        if path.remote_cids.active().is_empty() {
            return Ok((path.remote_cids.active_seq(), path.remote_cids.active()));
        }
        if let Some(at) = path.address.validations.iter().position(|one| one.tuple == *tuple)
            && let Some(sequence) = path.address.validations[at].taken()
            && let Some(cid) = path.remote_cids.get(sequence)
        {
            path.address.validations.remove(at);
            return Ok((sequence, cid));
        }
        path.remote_cids.take_unused().ok_or(MigrateError::NoConnectionId)
    }

    /// Returns whether a client knows `tuple`'s remote address as the server's.
    pub(crate) fn knows_remote(&self, tuple: &FourTuple) -> bool {
        self.list.iter().any(|path| {
            path.tuple.remote == tuple.remote
                || path.address.validations.iter().any(|validation| validation.tuple.remote == tuple.remote)
                || path
                    .address
                    .previous
                    .as_ref()
                    .is_some_and(|previous| previous.tuple.remote == tuple.remote)
        })
    }

    /// Learns the local address of a path, initially or after the driver changed its socket. Only authentic
    /// packets may change it, because anybody can send datagrams to other addresses of this host.
    #[inline(always)]
    pub(crate) fn learn_local_address(&mut self, context: &Context<'_>) {
        if !context.is_usual {
            self.learn_local_addresses(context);
        }
    }

    pub(crate) fn learn_local_addresses(&mut self, context: &Context<'_>) {
        let (tuple, client) = (context.tuple, self.side.is_client());
        let differs = |path: &&mut Path| path.tuple.local != tuple.local && path.tuple.remote == tuple.remote;
        for path in self.list.iter_mut().filter(differs) {
            let vague =
                path.tuple.local.ip().is_unspecified() && path.tuple.local.port() == tuple.local.port();
            // Once this end has migrated, packets to addresses that it has left say nothing about its present
            // address.
            let other = path.address.chose_local
                || path.address.validations.iter().any(|validation| validation.tuple.matches(tuple));
            let newest = path.id == context.path
                && context.kind == PacketKind::OneRtt
                && path.numbers.largest.is_none_or(|largest| context.number > largest);
            if vague || client && newest && !other {
                path.tuple.local = tuple.local;
            }
        }
    }

    /// Removes a datagram from the counters of another path with the same addresses, because it now counts
    /// for path `id`. A datagram from `tuple` allows three times its size to be sent (RFC 9000 §8.1), not six
    /// times.
    pub(crate) fn uncount_elsewhere(&mut self, id: PathId, tuple: &FourTuple, len: usize) {
        let other = self.list.by_tuple(tuple).filter(|other| *other != id);
        if let Some(other) = other.and_then(|other| self.list.get_mut(other)) {
            other.uncount_datagram(len);
        }
    }
}

/// Returns whether a server at `current` may redirect its clients to `preferred`. A server on the public
/// network must not direct clients to hosts that trust their local network, nor to ports of other services
/// (RFC 9000 §21.5).
pub(crate) fn may_follow(current: &SocketAddr, preferred: &SocketAddr) -> bool {
    let port = preferred.port();
    let port_ok = port == current.port() || port == 443 || port >= 1024;
    port_ok && !is_never_a_host(preferred.ip()) && (!is_local(preferred.ip()) || is_local(current.ip()))
}

fn is_never_a_host(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_multicast() || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
}

/// Returns whether the address is loopback, private or link-local. In another network, such an address may
/// denote a different host, or one that is trusted more.
fn is_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_server_cannot_send_clients_into_their_own_network() {
        let follow = |current: &str, preferred: &str| {
            may_follow(&current.parse().unwrap(), &preferred.parse().unwrap())
        };
        assert!(follow("203.0.113.1:443", "203.0.113.9:443"));
        assert!(follow("127.0.0.1:4433", "127.0.0.2:4434"));
        for preferred in
            ["127.0.0.1:443", "10.0.0.1:443", "192.168.1.1:443", "169.254.1.1:443", "0.0.0.0:443"]
        {
            assert!(!follow("203.0.113.1:443", preferred), "{preferred}");
        }
        for preferred in ["203.0.113.9:53", "203.0.113.9:22", "224.0.0.1:443", "255.255.255.255:443"] {
            assert!(!follow("203.0.113.1:443", preferred), "{preferred}");
        }
        assert!(!follow("[2001:db8::1]:443", "[::1]:443"));
        assert!(!follow("[2001:db8::1]:443", "[::ffff:10.0.0.1]:443"));
    }
}
