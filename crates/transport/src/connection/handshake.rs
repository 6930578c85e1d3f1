//! Cryptographic handshake: CRYPTO data to and from TLS, keys, transport parameters (RFC 9001 §4, RFC 9000
//! §7).

use std::sync::Arc;

use anabranch_recovery::Progress;
use anabranch_tls::{
    ClientHello, KeyChange, MAX_CLIENT_HELLO_LEN, Session, TlsError, client_hello_parameters, initial_keys,
};
use anabranch_wire::{
    ConnectionId, Frame, PacketKind, Side, SpaceId, Time, TransportErrorCode, TransportParameters,
};
use bytes::Bytes;

use crate::config::ClientConfig;
use crate::connection::connection::{ConnectError, Connection};
use crate::connection::negotiation::MAX_TOKEN;
use crate::connection::parts::{
    ClientStart, CryptoStream, HELLO_STEP, MAX_UNVALIDATED_CRYPTO, OneRtt, Remembered,
};
use crate::endpoint::{ServerStart, Waiting};
use crate::error::{TransportError, violation};
use crate::event::{EndpointEvent, Event};
use crate::trace::TraceEvent;

fn tls_error(error: &TlsError) -> TransportError {
    TransportError::new(TransportErrorCode(error.code()), error.reason.clone())
}

impl Connection {
    /// Starts a client's first flight.
    pub(super) fn start_client(
        &mut self,
        now: Time,
        config: &ClientConfig,
        server_name: &str,
        original_dcid: ConnectionId,
    ) -> Result<(), ConnectError> {
        self.handshake.original_dcid = original_dcid;
        if config.token.len() <= MAX_TOKEN {
            self.handshake.token = config.token.clone();
        }
        self.handshake.client =
            Some(Box::new(ClientStart { tls: config.tls.clone(), server_name: server_name.to_owned() }));
        self.make_client_session(now)
    }

    /// Creates the TLS session of a client for the current version and queues its ClientHello.
    pub(super) fn make_client_session(&mut self, now: Time) -> Result<(), ConnectError> {
        let Some(start) = self.handshake.client.take() else { return Ok(()) };
        let parameters = self.local_parameters();
        let encoded = self.encode(&parameters);
        let mut tls = start.tls.for_version(self.format.version);
        if self.may_change_naming() {
            tls = tls.without_early_data();
        }
        self.streams.set_named(self.format.names_stream);
        let mut session = Session::client(&tls, &start.server_name, encoded)?;
        self.handshake.local_parameters = Some(Box::new(parameters));
        self.handshake.client = Some(start);
        self.handshake.read_level = Some(SpaceId::Initial);
        self.handshake.write_level = Some(SpaceId::Initial);
        let dcid = self.paths.list.main().remote_cids.active();
        self.keys.initial = Some(Box::new(initial_keys(self.format, &dcid, self.side)));
        let early = session.early_secret();
        let remembered =
            session.peer_parameters().and_then(|p| TransportParameters::decode(Side::Server, p).ok());
        self.handshake.session = Some(session);
        self.write_tls(now);
        if let (Some(secret), Some(parameters)) = (early, remembered) {
            // RFC 9000 §7.4.1: remembered limits apply until the server sends new ones.
            if self.streams.set_peer_parameters(&parameters).is_ok() {
                self.datagrams.set_peer_maximum(parameters.max_datagram_frame_size);
                self.handshake.remembered = Some(Box::new(Remembered::from(&parameters)));
                self.keys.early = Some(Box::new(secret.keys(self.format)));
                self.trace(now, &TraceEvent::KeysInstalled { space: SpaceId::Data, early: true });
            }
        }
        Ok(())
    }

    /// Adopts the keys and connection IDs of the client's Initial, before the server processes the first
    /// datagram.
    pub(super) fn start_server(&mut self, start: &ServerStart) {
        let kept = self.shared.take_initial_keys(self.format.version, &start.initial_dcid);
        let derive = || Box::new(initial_keys(self.format, &start.initial_dcid, self.side));
        self.keys.initial = Some(kept.unwrap_or_else(derive));
        self.handshake.original_dcid = start.original_dcid;
        self.handshake.retry_scid = start.retry_scid;
        self.handshake.peer_scid = Some(start.peer_cid);
        self.handshake.read_level = Some(SpaceId::Initial);
        self.handshake.write_level = Some(SpaceId::Initial);
        self.origin.initial_dcid = start.initial_dcid;
        self.set_progress();
    }

    /// Handles CRYPTO data of `space`.
    pub(super) fn on_crypto(
        &mut self,
        now: Time,
        space: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        if self.is_discarded(space) {
            return Ok(());
        }
        let is_over = self.handshake.read_level.is_some_and(|level| space < level);
        if is_over {
            // RFC 9001 §4.1.3: data of a level that TLS has finished can only be a retransmission.
            let end = offset.saturating_add(data.len() as u64);
            let received = Self::level_index(space).and_then(|index| self.levels.get(index));
            let is_new = end > received.map_or(0, |level| level.crypto.received_end());
            return if is_new {
                Err(violation("handshake bytes behind the end of their level"))
            } else {
                Ok(())
            };
        }
        let is_unvalidated = self.side.is_server() && !self.paths.list.main().address.validated;
        let limit = if is_unvalidated { MAX_UNVALIDATED_CRYPTO } else { u64::MAX };
        self.crypto_mut(space).on_frame(offset, data, limit)?;
        self.drive_tls(now)?;
        self.count_hello(is_unvalidated)
    }

    /// Counts the memory of an incomplete ClientHello against the limit for all clients together, while the
    /// client's address is not validated. Fails if the limit is exceeded.
    fn count_hello(&mut self, is_unvalidated: bool) -> Result<(), TransportError> {
        if !is_unvalidated || self.handshake.session.is_some() {
            self.handshake.waiting = None;
            return Ok(());
        }
        let crypto = self.levels.get(0).map_or(0, |level| level.crypto.allocated());
        let bytes = crypto + self.handshake.hello.capacity();
        let waiting = self.handshake.waiting.get_or_insert_with(|| Waiting::new(Arc::clone(&self.shared)));
        if waiting.set(bytes) {
            return Ok(());
        }
        self.levels.get_mut(0).crypto = CryptoStream::default();
        (self.handshake.hello, self.handshake.waiting) = (Vec::new(), None);
        Err(TransportError::new(TransportErrorCode::CONNECTION_REFUSED, "too many handshakes are unfinished"))
    }

    pub(super) fn crypto_mut(&mut self, space: SpaceId) -> &mut CryptoStream {
        match Self::level_index(space) {
            Some(index) => &mut self.levels.get_mut(index).crypto,
            None => &mut self.handshake.data_crypto,
        }
    }

    /// Passes CRYPTO data to TLS in order, and queues the handshake data that TLS returns.
    fn drive_tls(&mut self, now: Time) -> Result<(), TransportError> {
        while let Some(level) = self.handshake.read_level {
            if self.handshake.session.is_none() && !self.read_client_hello(now)? {
                return Ok(());
            }
            let Some(session) = &mut self.handshake.session else { return Ok(()) };
            let crypto = match Self::level_index(level) {
                Some(index) => &mut self.levels.get_mut(index).crypto,
                None => &mut self.handshake.data_crypto,
            };
            let bytes = crypto.peek();
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len();
            session.read(bytes).map_err(|error| tls_error(&error))?;
            crypto.consume(len);
            self.write_tls(now);
            self.after_tls(now)?;
        }
        Ok(())
    }

    /// Collects the ClientHello. Once it is complete, chooses the version and the parameters, creates the
    /// session and passes the ClientHello to it. Returns `false` while data is missing.
    fn read_client_hello(&mut self, now: Time) -> Result<bool, TransportError> {
        let crypto = &mut self.levels.get_mut(0).crypto;
        loop {
            let bytes = crypto.peek();
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len();
            let hello = &mut self.handshake.hello;
            if hello.capacity() - hello.len() < len {
                hello.reserve_exact(len.next_multiple_of(HELLO_STEP));
            }
            hello.extend_from_slice(bytes);
            crypto.consume(len);
        }
        if self.handshake.hello.len() > MAX_CLIENT_HELLO_LEN {
            return Err(TransportError::new(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "ClientHello is too long",
            ));
        }
        let hello = std::mem::take(&mut self.handshake.hello);
        let parameters = match client_hello_parameters(&hello) {
            ClientHello::Incomplete => {
                self.handshake.hello = hello;
                return Ok(false);
            }
            ClientHello::Malformed { alert } => {
                return Err(TransportError::new(
                    TransportErrorCode::crypto(alert),
                    "ClientHello is malformed",
                ));
            }
            ClientHello::Parameters(offer) => TransportParameters::decode(Side::Client, offer.parameters)?,
        };
        self.on_peer_parameters(now, parameters)?;
        self.choose_version(now)?;
        self.streams.set_named(self.format.names_stream);
        let Some(server) = self.server.clone() else { return Ok(false) };
        let parameters = self.local_parameters();
        let encoded = self.encode(&parameters);
        self.trace(now, &TraceEvent::Parameters { local: true, parameters: &parameters });
        self.handshake.local_parameters = Some(Box::new(parameters));
        let tls = server.tls.for_version(self.format.version);
        let mut session = Session::server(&tls, encoded)
            .map_err(|error| TransportError::new(TransportErrorCode::INTERNAL_ERROR, error.to_string()))?;
        if self.format.version != self.origin.version {
            // RFC 9369 §4.1: 0-RTT packets have the original version, so a change of version rejects them.
            session.reject_early_data();
        }
        session.read(&hello).map_err(|error| tls_error(&error))?;
        if let Some(secret) = session.early_secret() {
            self.keys.early = Some(Box::new(secret.keys(self.format)));
            self.keys.undecrypted.retry = true;
            self.trace(now, &TraceEvent::KeysInstalled { space: SpaceId::Data, early: true });
        }
        self.handshake.session = Some(session);
        self.write_tls(now);
        self.after_tls(now)?;
        Ok(true)
    }

    /// Takes handshake data and keys from TLS until TLS has no more.
    fn write_tls(&mut self, now: Time) {
        let mut bytes = Vec::new();
        loop {
            let Some(session) = &mut self.handshake.session else { return };
            let change = session.write(&mut bytes);
            let level = self.handshake.write_level.unwrap_or(SpaceId::Initial);
            #[cfg(test)]
            if let Some(edit) = self.config.hooks.crypto {
                edit(level, &mut bytes);
            }
            if !bytes.is_empty() {
                self.crypto_mut(level).push(&bytes);
                bytes.clear();
            }
            match change {
                None => return,
                Some(KeyChange::Handshake(secrets)) => {
                    self.keys.handshake = Some(Box::new(secrets.keys(self.format)));
                    self.handshake.write_level = Some(SpaceId::Handshake);
                    self.handshake.read_level = Some(SpaceId::Handshake);
                    self.keys.undecrypted.retry = true;
                    self.trace(now, &TraceEvent::KeysInstalled { space: SpaceId::Handshake, early: false });
                    self.set_progress();
                }
                Some(KeyChange::OneRtt(secrets)) => {
                    let update_after = self.config.key_update_after;
                    self.keys.one_rtt = Some(OneRtt::new(secrets, self.format, update_after));
                    self.paths.begin_phase();
                    self.handshake.write_level = Some(SpaceId::Data);
                    if self.side.is_client() {
                        self.handshake.read_level = Some(SpaceId::Data);
                        // RFC 9001 §4.9.3: a client needs no 0-RTT keys once it has 1-RTT keys.
                        self.keys.early = None;
                    }
                    self.trace(now, &TraceEvent::KeysInstalled { space: SpaceId::Data, early: false });
                }
            }
        }
    }

    /// Applies the effects of TLS progress: reports ALPN, checks for unread data, completes the handshake.
    fn after_tls(&mut self, now: Time) -> Result<(), TransportError> {
        let Some(session) = &self.handshake.session else { return Ok(()) };
        let alpn = session.alpn().map(Bytes::copy_from_slice);
        let done = !session.is_handshaking();
        if !self.handshake.progress.data_reported && (alpn.is_some() && self.side.is_server() || done) {
            self.handshake.progress.data_reported = true;
            if let Some(protocol) = &alpn {
                self.trace(now, &TraceEvent::AlpnChosen { protocol });
            }
            self.handshake.alpn = alpn;
            self.output.events.push_back(Event::HandshakeDataReady);
            if self.side.is_server() && self.keys.one_rtt.is_some() && self.shared.cid_len() > 0 {
                // The connection IDs are sent in the server's first flight, so that the client can open paths
                // as soon as the handshake is complete.
                self.issue_path_cids();
            }
        }
        // RFC 9001 §4.1.3: no unread data of an earlier level may remain when the next level begins.
        let level = self.handshake.read_level.unwrap_or(SpaceId::Initial);
        for (index, space) in [SpaceId::Initial, SpaceId::Handshake].into_iter().enumerate() {
            if space < level && self.levels.get(index).is_some_and(|level| level.crypto.has_unread()) {
                return Err(violation("handshake bytes left over at the end of their level"));
            }
        }
        if done && !self.handshake.progress.complete {
            self.on_handshake_complete(now)?;
            if let Some(session) = &mut self.handshake.session {
                session.retire();
            }
        }
        Ok(())
    }

    fn on_handshake_complete(&mut self, now: Time) -> Result<(), TransportError> {
        let session = self.handshake.session.as_ref();
        let accepted = session.and_then(Session::early_data_accepted);
        let has_other_alpn = session.is_some_and(Session::has_other_alpn);
        if self.side.is_client() {
            let bytes = session.and_then(Session::peer_parameters).ok_or_else(|| {
                // RFC 9001 §8.2
                TransportError::new(TransportErrorCode::crypto(109), "no transport parameters")
            })?;
            let parameters = TransportParameters::decode(Side::Server, bytes)?;
            match (accepted, self.handshake.remembered.take()) {
                (Some(true), Some(remembered)) => remembered.check(&parameters)?,
                (Some(false), _) if has_other_alpn && self.has_early_data() => {
                    return Err(TransportError::new(
                        TransportErrorCode::crypto(120),
                        "early data was for another application protocol",
                    ));
                }
                (Some(false), _) => self.reject_early_data(now),
                _ => {}
            }
            self.on_peer_parameters(now, parameters)?;
            self.check_version_information()?;
        }
        self.handshake.progress.complete = true;
        self.idle.on_handshake_complete();
        self.handshake.read_level = Some(SpaceId::Data);
        self.handshake.client = None;
        self.handshake.local_parameters = None;
        self.output.events.push_back(Event::Connected { early_data_accepted: accepted == Some(true) });
        if self.side.is_server() {
            // RFC 9001 §4.1.2: at a server the handshake is confirmed as soon as it is complete.
            self.pending.handshake_done = true;
            self.pending.new_tokens = self.server.as_ref().map_or(0, |server| server.new_tokens);
            self.handshake.early_until = Some(now + self.paths.list.max_pto() * 3);
            self.output.endpoint_events.push_back(EndpointEvent::HandshakeOver);
            self.confirm(now);
        }
        self.issue_cids();
        self.keys.undecrypted.retry = true;
        Ok(())
    }

    /// Returns whether the application has early data that would now be sent. If the server has chosen another
    /// application protocol, no stream may go on (RFC 9001 §4.6.2).
    fn has_early_data(&self) -> bool {
        self.streams.open_streams() > 0 || self.datagrams.has_pending()
    }

    /// Queues all early data again, for 1-RTT packets: the server rejected 0-RTT (RFC 9001 §4.6.2).
    fn reject_early_data(&mut self, now: Time) {
        self.keys.early = None;
        let mut outcome = std::mem::take(&mut self.outcome);
        let path = self.paths.list.main_mut();
        path.recovery.lose_all(SpaceId::Data, &mut outcome);
        let id = path.id;
        self.apply_outcome(now, SpaceId::Data, id, &mut outcome);
        self.outcome = outcome;
        self.streams.reject_zero_rtt();
    }

    /// Marks the handshake as confirmed (RFC 9001 §4.1.2) and discards the Initial and Handshake keys.
    pub(super) fn confirm(&mut self, now: Time) {
        if self.handshake.progress.confirmed {
            return;
        }
        self.handshake.progress.confirmed = true;
        self.discard_space(now, SpaceId::Initial);
        self.discard_space(now, SpaceId::Handshake);
        self.set_progress();
        self.trace(now, &TraceEvent::HandshakeConfirmed);
        self.output.events.push_back(Event::Confirmed);
        if self.side.is_client() {
            self.begin_preferred_address(now);
        }
    }

    /// Discards the keys of a handshake space, and all its state (RFC 9001 §4.9).
    pub(super) fn discard_space(&mut self, now: Time, space: SpaceId) {
        let Some(index) = Self::level_index(space) else { return };
        let had = match space {
            SpaceId::Initial => {
                self.keys.other_initial = None;
                self.keys.initial.take().is_some()
            }
            _ => self.keys.handshake.take().is_some(),
        };
        if had {
            self.levels.discard(index);
            self.paths.list.iter_mut().for_each(|path| path.recovery.discard_space(space));
            self.trace(now, &TraceEvent::KeysDiscarded { space });
        }
    }

    /// Returns whether the keys of `space` are gone. This is so for the later frames of a packet of which an earlier one completed the
    /// handshake; they have no effect.
    pub(super) fn is_discarded(&self, space: SpaceId) -> bool {
        match space {
            SpaceId::Initial => self.keys.initial.is_none(),
            SpaceId::Handshake => self.keys.handshake.is_none(),
            SpaceId::Data => false,
        }
    }

    /// Informs loss recovery of the handshake's progress (RFC 9002 A.8).
    pub(super) fn set_progress(&mut self) {
        let main = self.paths.list.main().id;
        let [of_main, of_others] = [self.progress(true), self.progress(false)];
        for path in self.paths.list.iter_mut() {
            path.recovery.set_progress(if path.id == main { of_main } else { of_others });
        }
    }

    /// Returns the progress of the handshake for the loss recovery of the main path (`is_main`) or of another
    /// path. Only the main path sends probes to keep the handshake going.
    pub(super) fn progress(&self, is_main: bool) -> Progress {
        Progress {
            has_handshake_keys: self.keys.handshake.is_some() || self.handshake.progress.complete,
            peer_validated_address: !is_main
                || self.side.is_server()
                || self.handshake.progress.confirmed
                || self.levels.get(1).is_some_and(|level| level.largest_acked.is_some()),
            handshake_confirmed: self.handshake.progress.confirmed,
        }
    }

    /// Issues as many connection IDs as the peer accepts (RFC 9000 §5.1.1).
    pub(super) fn issue_cids(&mut self) {
        if !self.handshake.progress.complete || self.shared.cid_len() == 0 {
            return;
        }
        for path in self.paths.list.iter_mut().filter(|path| !path.is_abandoned()) {
            for _ in 0..path.local_cids.wanted() {
                let cid = self.shared.cid(&mut self.random);
                path.local_cids.issue(cid, self.shared.reset_token(&cid));
                self.output.endpoint_events.push_back(EndpointEvent::CidIssued(cid));
            }
        }
        self.issue_path_cids();
    }

    /// Forwards changes of the paths' stateless reset tokens to the endpoint.
    pub(super) fn collect_reset_tokens(&mut self) {
        for path in self.paths.list.iter_mut() {
            while let Some(event) = path.remote_cids.poll_endpoint_event() {
                self.output.endpoint_events.push_back(event);
            }
        }
        self.collect_pooled_reset_tokens();
    }

    /// Returns the packet type for application data; `None` until keys for it are available.
    pub(super) fn data_kind(&self) -> Option<PacketKind> {
        match (&self.keys.one_rtt, &self.keys.early) {
            (Some(_), _) => Some(PacketKind::OneRtt),
            (None, Some(_)) if self.side.is_client() => Some(PacketKind::ZeroRtt),
            _ => None,
        }
    }

    /// Creates the token of a NEW_TOKEN frame for the client's current address.
    pub(super) fn make_token(&mut self, now: Time) -> Vec<u8> {
        let remote = self.paths.list.main().tuple.remote;
        let nonce = self.random.bytes();
        self.shared.new_token(now, remote, nonce)
    }

    /// Handles a NEW_TOKEN frame: queues an event with its token.
    pub(super) fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.side.is_server() {
            // RFC 9000 §19.7
            return Err(violation("NEW_TOKEN from a client").in_frame(Frame::NewToken { token }.kind()));
        }
        self.output.events.push_back(Event::NewToken(Bytes::copy_from_slice(token)));
        Ok(())
    }
}
