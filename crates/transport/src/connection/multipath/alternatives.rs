//! Alternative addresses of the server: their announcement by a server, and their receipt by a client.

use std::net::SocketAddr;

use anabranch_wire::{AddressFlags, TransportParameters};

use crate::connection::connection::Connection;
use crate::error::{TransportError, violation};
use crate::event::Event;
use crate::path::{Word, may_follow};

impl Connection {
    /// Server: announces the configured addresses to a client that requests them.
    pub(in crate::connection) fn begin_alternatives(&mut self, parameters: &TransportParameters) {
        let Some(multipath) = &mut self.paths.multipath else { return };
        multipath.alternatives.wanted = self.side.is_server() && parameters.alternative_address;
        let server = self.server.clone();
        for address in server.iter().flat_map(|server| &server.alternative_addresses) {
            // This fails if the client does not accept further addresses. No address is then announced.
            let _ = self.paths.announce_address(*address, false);
        }
    }

    /// Handles ALTERNATIVE_V4_ADDRESS or ALTERNATIVE_V6_ADDRESS.
    pub(in crate::connection) fn on_alternative_address(
        &mut self,
        address: SocketAddr,
        flags: AddressFlags,
        sequence: u64,
    ) -> Result<(), TransportError> {
        if !self.paths.wants_alternatives() {
            return Err(violation("an alternative address that nobody asked for"));
        }
        // RFC 9000 §21.5: a server must not direct its clients to arbitrary addresses.
        let sane = may_follow(&self.paths.list.main().tuple.remote, &address);
        let Some(multipath) = self.paths.multipath.as_mut().filter(|_| sane) else { return Ok(()) };
        if multipath.alternatives.learn(Word { address, flags, sequence, owed: false }) {
            self.output.events.push_back(Event::ServerAddresses);
        }
        Ok(())
    }
}
