//! Further addresses of the server (draft-munizaga-quic-alternative-server-address): announced and withdrawn by it, known to
//! a client that asked for them, who may open paths there.

use std::net::SocketAddr;

use anabranch_wire::{AddressFlags, Frame, TransportParameters, Writer};

use crate::connection::connection::Connection;
use crate::connection::migration::may_follow;
use crate::connection::receive::violation;
use crate::error::TransportError;
use crate::event::Event;
use crate::token::{Token, Tokens};

/// Addresses of a server that either end remembers, those included that were withdrawn; further ones are ignored.
pub(crate) const MAX_ALTERNATIVES: usize = 16;

/// One further address of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlternativeAddress {
    /// The address.
    pub address: SocketAddr,
    /// Whether the server would rather be reached there than at the address in use.
    pub preferred: bool,
}

/// What was said of the server's addresses: by this end if it is the server, else by the peer.
#[derive(Debug, Default)]
pub(super) struct Alternatives {
    words: Vec<Word>,
    /// Server: the next sequence number.
    next: u64,
    /// Server: whether the client understands.
    wanted: bool,
}

/// The newest word about one address.
#[derive(Clone, Copy, Debug)]
struct Word {
    address: SocketAddr,
    flags: AddressFlags,
    sequence: u64,
    /// Server: it is to be said (again).
    owed: bool,
}

impl Alternatives {
    pub(super) fn has_pending(&self) -> bool {
        self.words.iter().any(|word| word.owed)
    }

    fn current(&self) -> impl Iterator<Item = AlternativeAddress> + '_ {
        self.words
            .iter()
            .filter(|word| !word.flags.retire)
            .map(|word| AlternativeAddress { address: word.address, preferred: word.flags.preferred })
    }

    /// Takes a newer word about an address in. Says whether it is one.
    fn learn(&mut self, new: Word) -> bool {
        let known = self.words.iter().position(|word| word.address == new.address);
        match known {
            Some(at) if self.words[at].sequence >= new.sequence => return false,
            Some(at) => self.words[at] = new,
            None if self.words.len() == MAX_ALTERNATIVES => return false,
            None => self.words.push(new),
        }
        true
    }

    fn say(&mut self, address: SocketAddr, flags: AddressFlags) -> bool {
        let said = self.wanted && self.learn(Word { address, flags, sequence: self.next, owed: true });
        self.next += u64::from(said);
        said
    }

    pub(super) fn write(&mut self, writer: &mut Writer<'_>, tokens: &mut Tokens) {
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

    /// A word was lost: it is repeated unless there is a newer one.
    pub(super) fn on_lost(&mut self, sequence: u64) {
        self.words.iter_mut().filter(|word| word.sequence == sequence).for_each(|word| word.owed = true);
    }
}

impl Connection {
    /// Whether this end asks for further addresses of the server: a client that can open paths there.
    pub(in crate::connection) fn wants_alternatives(&self) -> bool {
        self.side.is_client() && self.config.multipath.is_some()
    }

    /// Server: says its configured addresses to a client that asks for them.
    pub(in crate::connection) fn begin_alternatives(&mut self, parameters: &TransportParameters) {
        let Some(multipath) = &mut self.multipath else { return };
        multipath.alternatives.wanted = self.side.is_server() && parameters.alternative_address;
        let server = self.server.clone();
        for address in server.iter().flat_map(|server| &server.alternative_addresses) {
            self.announce_address(*address, false);
        }
    }

    /// Server: tells the client that this is an address of the server as well, and whether it is a better one. `false` if the
    /// client does not want to know, or too many addresses were announced.
    pub fn announce_address(&mut self, address: SocketAddr, preferred: bool) -> bool {
        let flags = AddressFlags { preferred, retire: false };
        self.multipath.as_mut().is_some_and(|multipath| multipath.alternatives.say(address, flags))
    }

    /// Server: withdraws an announced address; the client should leave it. `false` if it was not announced.
    pub fn withdraw_address(&mut self, address: SocketAddr) -> bool {
        let Some(multipath) = &mut self.multipath else { return false };
        let announced = multipath.alternatives.current().any(|known| known.address == address);
        announced && multipath.alternatives.say(address, AddressFlags { preferred: false, retire: true })
    }

    /// Client: the addresses that the server has announced and not withdrawn; [`Event::ServerAddresses`] tells of changes.
    pub fn server_addresses(&self) -> Vec<AlternativeAddress> {
        let alternatives = self.multipath.iter().filter(|_| self.side.is_client());
        alternatives.flat_map(|multipath| multipath.alternatives.current()).collect()
    }

    /// ALTERNATIVE_V4_ADDRESS or ALTERNATIVE_V6_ADDRESS.
    pub(in crate::connection) fn on_alternative_address(
        &mut self,
        address: SocketAddr,
        flags: AddressFlags,
        sequence: u64,
    ) -> Result<(), TransportError> {
        if !self.wants_alternatives() {
            return Err(violation("an alternative address that nobody asked for"));
        }
        // RFC 9000 §21.5: a server must not send its clients just anywhere.
        let sane = may_follow(&self.paths.main().tuple.remote, &address);
        let Some(multipath) = self.multipath.as_mut().filter(|_| sane) else { return Ok(()) };
        if multipath.alternatives.learn(Word { address, flags, sequence, owed: false }) {
            self.events.push_back(Event::ServerAddresses);
        }
        Ok(())
    }
}
