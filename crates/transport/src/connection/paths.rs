//! The application's questions and wishes about paths.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::PathId;

use crate::config::Numbering;
use crate::connection::connection::Connection;
use crate::path::{AlternativeAddress, AnnounceError, PathError, PathStatus, SocketBlock};

impl Connection {
    /// Returns the peer's address on the first path; that of the last one if none is left.
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.list.main().tuple.remote
    }

    /// Reports whether both ends allow several paths.
    pub fn is_multipath(&self) -> bool {
        self.paths.is_multipath()
    }

    /// Returns how packets of several paths are numbered; `None` as long as there can be only one path.
    pub fn numbering(&self) -> Option<Numbering> {
        self.paths.numbering()
    }

    /// Server: announces to the client a further address of the server, and whether it is a better one.
    ///
    /// # Errors
    /// If the client does not accept further addresses, or too many were announced.
    pub fn announce_address(&mut self, address: SocketAddr, preferred: bool) -> Result<(), AnnounceError> {
        self.paths.announce_address(address, preferred)
    }

    /// Server: withdraws an announced address; the client should leave it.
    ///
    /// # Errors
    /// If it was not announced.
    pub fn withdraw_address(&mut self, address: SocketAddr) -> Result<(), AnnounceError> {
        self.paths.withdraw_address(address)
    }

    /// Client: returns the addresses that the server has announced and not withdrawn.
    /// [`Event::ServerAddresses`](crate::Event::ServerAddresses) reports changes.
    pub fn server_addresses(&self) -> Vec<AlternativeAddress> {
        self.paths.server_addresses()
    }

    /// Reports whether a path carries data: `false` while the peer has not answered on it, `None` once it is
    /// abandoned.
    pub fn is_path_open(&self, id: PathId) -> Option<bool> {
        self.paths.is_path_open(id)
    }

    /// Reports whether any state of a path is kept: packets may still leave and arrive on it, even if it was
    /// abandoned.
    pub fn has_path(&self, id: PathId) -> bool {
        self.paths.has_path(id)
    }

    /// Excludes paths whose local address has a full socket: until the next call, [`Self::poll_transmit`]
    /// leaves them out and gives other paths what any path may carry.
    pub fn set_socket_blocked(&mut self, is_socket_blocked: impl Fn(SocketAddr) -> bool) -> SocketBlock {
        self.paths.set_socket_blocked(is_socket_blocked)
    }

    /// Sets the weight of a path for schedulers that share by weight; the default is 1, and a path with 0 is
    /// used when no other has room.
    ///
    /// # Errors
    /// If there is no such path, or only one may exist.
    pub fn set_path_weight(&mut self, id: PathId, weight: u32) -> Result<(), PathError> {
        self.paths.set_path_weight(id, weight)
    }

    /// Sets whether a path is used like others, or as a backup when no other works. The peer learns of it by
    /// PATH_STATUS frames and decides by itself where it sends.
    ///
    /// # Errors
    /// If there is no such path, or only one may exist.
    pub fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        self.paths.set_path_status(id, status)
    }

    /// Client: reports whether a datagram that begins like this may have been one of this end's first ones,
    /// as far as it shows their destination connection ID (RFC 8999 §5.1).
    pub fn has_sent(&self, beginning: &[u8]) -> bool {
        self.paths.has_sent(beginning)
    }

    /// Reports whether the path runs between these addresses, or a challenge to them waits for its response.
    pub fn is_asked(&self, id: PathId, local: IpAddr, remote: SocketAddr) -> bool {
        self.paths.is_asked(id, local, remote)
    }

    /// Reports whether packets are sent from this address, or responses to them may still arrive there.
    pub fn uses_local(&self, local: SocketAddr) -> bool {
        self.paths.uses_local(local)
    }
}
