//! Handling of unknown connections at a server: Version Negotiation, Retry, new connections.

use std::collections::HashMap;
use std::net::SocketAddr;

use peer_common::Failure;
use quiche::{ConnectionId, Header, Type};

use super::Endpoint;
use crate::config::Connection;
use crate::stack;

/// Rules by which a server accepts connections.
pub struct Door {
    pub retry: bool,
    /// Valid Retry tokens, with the client's address and the original destination connection ID of each.
    pub tokens: HashMap<Vec<u8>, (SocketAddr, Vec<u8>)>,
}

impl<S: Default> Endpoint<S> {
    /// Handles a datagram that belongs to no known connection, by Version Negotiation, Retry or a new
    /// connection.
    pub(super) fn stranger(
        &mut self,
        from: SocketAddr,
        header: &Header<'_>,
        datagram: &mut [u8],
    ) -> Result<(), Failure> {
        // A client's second Initial packet may have arrived in the same batch as its first.
        if let Some(&key) = self.routes.get(&header.dcid[..]) {
            return self.deliver(key, from, datagram);
        }
        let Some(mut door) = self.door.take() else { return Ok(()) };
        let outcome = self.admit(&mut door, from, header, datagram);
        self.door = Some(door);
        outcome
    }

    fn admit(
        &mut self,
        door: &mut Door,
        from: SocketAddr,
        header: &Header<'_>,
        datagram: &mut [u8],
    ) -> Result<(), Failure> {
        if datagram.len() < 1200 || matches!(header.ty, Type::Short | Type::VersionNegotiation) {
            return Ok(());
        }
        // The version must be checked first, because it determines the meaning of the packet type bits.
        if !quiche::version_is_supported(header.version) {
            let n = quiche::negotiate_version(&header.scid, &header.dcid, &mut self.packets)?;
            return Ok(self.udp.send(from, &self.packets[..n], n)?);
        }
        if header.ty != Type::Initial {
            return Ok(());
        }
        let cid = self.fresh_cid()?;
        let scid = ConnectionId::from_ref(&cid);
        let local = self.udp.local();
        let connection: Connection = if door.retry {
            let token = header.token.clone().unwrap_or_default();
            let Some((address, original)) = door.tokens.remove(&token) else {
                let token = self.fresh_cid()?.to_vec();
                let n = quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &scid,
                    &token,
                    header.version,
                    &mut self.packets,
                )?;
                door.tokens.insert(token, (from, header.dcid.to_vec()));
                return Ok(self.udp.send(from, &self.packets[..n], n)?);
            };
            if address != from {
                return Ok(());
            }
            let original = ConnectionId::from_ref(&original);
            stack::accept_retried(&scid, &original, &header.dcid, local, from, &mut self.config)?
        } else {
            quiche::accept_with_buf_factory(&scid, None, local, from, &mut self.config)?
        };
        // The rest of the client's first flight still has the connection ID that the client chose.
        let key = self.insert(connection, vec![cid.to_vec(), header.dcid.to_vec()]);
        self.deliver(key, from, datagram)
    }
}
