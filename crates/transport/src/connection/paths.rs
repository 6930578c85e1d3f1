//! Queries and operations on paths, for the application.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::PathId;

use crate::config::Numbering;
use crate::connection::connection::Connection;
use crate::path::{AlternativeAddress, AnnounceError, Multipath, PathError, PathStatus, SocketBlock};

impl Connection {
    /// Returns the peer's address on the main path; if no path is left, on the last one.
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.list.main().tuple.remote
    }

    /// Returns whether both endpoints allow several paths.
    pub fn is_multipath(&self) -> bool {
        self.paths.is_multipath()
    }

    /// Returns whether [`Self::open_path`] would find the handshake complete, an unused path ID and a connection ID
    /// that the peer has issued for it.
    pub fn can_open_path(&self) -> bool {
        let multipath = self.paths.multipath.as_deref();
        self.handshake.progress.complete && multipath.is_some_and(Multipath::has_cid_for_path)
    }

    /// Returns the numbering of the packets of several paths; `None` if only one path can exist.
    pub fn numbering(&self) -> Option<Numbering> {
        self.paths.numbering()
    }

    /// Server: announces another address of the server to the client. `preferred` states that this address is
    /// better than the one in use.
    ///
    /// # Errors
    /// Fails if the client does not accept further addresses, or if too many have been announced.
    pub fn announce_address(&mut self, address: SocketAddr, preferred: bool) -> Result<(), AnnounceError> {
        self.paths.announce_address(address, preferred)
    }

    /// Server: withdraws an announced address. The client should stop using it.
    ///
    /// # Errors
    /// Fails if the address was not announced.
    pub fn withdraw_address(&mut self, address: SocketAddr) -> Result<(), AnnounceError> {
        self.paths.withdraw_address(address)
    }

    /// Client: returns the addresses that the server has announced and not withdrawn since.
    /// [`Event::ServerAddresses`](crate::Event::ServerAddresses) reports changes.
    pub fn server_addresses(&self) -> Vec<AlternativeAddress> {
        self.paths.server_addresses()
    }

    /// Returns whether a path may carry data: `false` until the peer has responded on it, `None` if it is
    /// abandoned or unknown.
    pub fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.paths.is_path_open(id)
    }

    /// Returns whether state for a path exists. Packets may then still be sent and received on it, even if it
    /// was abandoned.
    pub fn has_path(&self, id: PathId) -> bool {
        self.paths.has_path(id)
    }

    /// Excludes paths whose local address has a full socket. Until the next call, [`Self::poll_transmit`]
    /// skips them and moves data that any path may carry to other paths.
    pub fn set_socket_blocked(&mut self, is_socket_blocked: impl Fn(SocketAddr) -> bool) -> SocketBlock {
        self.paths.set_socket_blocked(is_socket_blocked)
    }

    /// Sets the weight of a path for schedulers that share load by weight. The default is 1. A path with
    /// weight 0 is used only if no other path has room.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if only one path can exist.
    pub fn set_path_weight(&mut self, id: PathId, weight: u32) -> Result<(), PathError> {
        self.paths.set_path_weight(id, weight)
    }

    /// Sets whether a path is used normally, or as a backup if no other path works. A PATH_STATUS frame
    /// reports this status to the peer, which chooses the paths for its own packets itself.
    ///
    /// # Errors
    /// Fails if the path does not exist, or if only one path can exist.
    pub fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.paths.set_path_status(id, status)
    }

    /// Client: returns whether a datagram with this beginning may be one of the first that this endpoint
    /// sent, judging by its Destination Connection ID (RFC 8999 §5.1).
    pub fn has_sent(&self, beginning: &[u8]) -> bool {
        self.paths.has_sent(beginning)
    }

    /// Returns whether the path runs between these addresses, or a PATH_CHALLENGE to them awaits its
    /// response.
    pub fn is_asked(&self, id: PathId, local: IpAddr, remote: SocketAddr) -> bool {
        self.paths.is_asked(id, local, remote)
    }

    /// Returns whether packets are sent from this address, or responses may still arrive there.
    pub fn uses_local(&self, local: SocketAddr) -> bool {
        self.paths.uses_local(local)
    }
}
