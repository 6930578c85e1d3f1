//! Further addresses of the server (draft-munizaga-quic-alternative-server-address). The server announces and
//! withdraws them. A client that supports them remembers them and may open paths to them.

use super::{AnnounceError, PathSet};
use std::net::SocketAddr;

use anabranch_wire::{AddressFlags, Frame, Writer};

use crate::token::{Token, Tokens};

/// Maximum number of the server's addresses that either end remembers, including withdrawn ones. Further ones
/// are ignored.
pub(crate) const MAX_ALTERNATIVES: usize = 16;

/// A further address of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlternativeAddress {
    /// The address.
    pub address: SocketAddr,
    /// `true` if the server prefers this address to the one in use.
    pub preferred: bool,
}

/// Announcements of the server's addresses: sent ones at the server, received ones at the client.
#[derive(Debug, Default)]
pub(crate) struct Alternatives {
    words: Vec<Word>,
    /// Server: sequence number of the next announcement.
    next: u64,
    /// Server: `true` if the client supports the extension.
    pub(crate) wanted: bool,
}

/// Newest announcement about one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) address: SocketAddr,
    pub(crate) flags: AddressFlags,
    pub(crate) sequence: u64,
    /// Server: `true` if the announcement must be sent (again).
    pub(crate) owed: bool,
}

impl Alternatives {
    pub(crate) fn has_pending(&self) -> bool {
        self.words.iter().any(|word| word.owed)
    }

    pub(crate) fn current(&self) -> impl Iterator<Item = AlternativeAddress> + '_ {
        self.words
            .iter()
            .filter(|word| !word.flags.retire)
            .map(|word| AlternativeAddress { address: word.address, preferred: word.flags.preferred })
    }

    /// Stores an announcement. Returns whether it is newer than the known one and within the limit.
    pub(crate) fn learn(&mut self, new: Word) -> bool {
        let known = self.words.iter().position(|word| word.address == new.address);
        match known {
            Some(at) if self.words[at].sequence >= new.sequence => return false,
            Some(at) => self.words[at] = new,
            None if self.words.len() == MAX_ALTERNATIVES => return false,
            None => self.words.push(new),
        }
        true
    }

    pub(crate) fn say(&mut self, address: SocketAddr, flags: AddressFlags) -> Result<(), AnnounceError> {
        if !self.wanted {
            return Err(AnnounceError::NotWanted);
        }
        if !self.learn(Word { address, flags, sequence: self.next, owed: true }) {
            return Err(AnnounceError::TooMany);
        }
        self.next += 1;
        Ok(())
    }

    pub(crate) fn write(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
        for word in self.words.iter_mut().filter(|word| word.owed) {
            let Word { flags, sequence, .. } = *word;
            let frame = match word.address {
                SocketAddr::V4(address) => Frame::AlternativeV4Address { flags, sequence, address },
                SocketAddr::V6(address) => Frame::AlternativeV6Address { flags, sequence, address },
            };
            if writer.frame(&frame).is_err() {
                return;
            }
            word.owed = false;
            tokens.push(Token::AlternativeAddress(sequence));
        }
    }

    /// Marks a lost announcement to be sent again, unless a newer one has replaced it.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.words.iter_mut().filter(|word| word.sequence == sequence).for_each(|word| word.owed = true);
    }
}

impl PathSet {
    /// Returns whether this end requests further addresses of the server: it must be a client that can open
    /// paths to them.
    pub(crate) fn wants_alternatives(&self) -> bool {
        self.side.is_client() && self.config.multipath.is_some()
    }

    /// Announces a further address of the server to the client, and whether it is preferred (server only).
    /// Fails if the client does not support the extension, or if too many addresses were announced.
    pub(crate) fn announce_address(
        &mut self,
        address: SocketAddr,
        preferred: bool,
    ) -> Result<(), AnnounceError> {
        let multipath = self.multipath.as_mut().ok_or(AnnounceError::NotWanted)?;
        multipath.alternatives.say(address, AddressFlags { preferred, retire: false })
    }

    /// Withdraws an announced address, which the client should then stop using (server only). Fails if the
    /// address is not announced.
    pub(crate) fn withdraw_address(&mut self, address: SocketAddr) -> Result<(), AnnounceError> {
        let multipath = self.multipath.as_mut().ok_or(AnnounceError::NotAnnounced)?;
        if !multipath.alternatives.current().any(|known| known.address == address) {
            return Err(AnnounceError::NotAnnounced);
        }
        multipath.alternatives.say(address, AddressFlags { preferred: false, retire: true })
    }

    /// Returns the addresses that the server has announced and not withdrawn (client only).
    /// `Event::ServerAddresses` reports changes.
    pub(crate) fn server_addresses(&self) -> Vec<AlternativeAddress> {
        let alternatives = self.multipath.iter().filter(|_| self.side.is_client());
        alternatives.flat_map(|multipath| multipath.alternatives.current()).collect()
    }
}
