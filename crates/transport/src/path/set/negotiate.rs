//! Negotiation of multipath and of the packet numbering, from the transport parameters of both ends.

use anabranch_wire::{ConnectionId, SpaceId, TransportErrorCode, TransportParameters};

use super::Multipath;
use super::PathSet;
use super::pool::Pool;
use crate::config::{MAX_PATHS, Numbering};
use crate::error::TransportError;

/// Value of the transport parameter that selects the single packet number space.
pub(crate) const SINGLE: u64 = 1;

impl PathSet {
    /// Returns the numbering of the packets of several paths; `None` if the connection can have only one
    /// path.
    pub(crate) fn numbering(&self) -> Option<Numbering> {
        let numbering = if self.numbering.is_single() { Numbering::Single } else { Numbering::Multiple };
        self.multipath.is_some().then_some(numbering)
    }

    /// Returns this end's `initial_max_path_id` if a packet number space for each path is configured and
    /// possible. Both ends must use non-empty connection IDs (RFC 10069 §2.1).
    pub(crate) fn initial_max_path_id(&self) -> Option<u32> {
        let config = self.config.multipath.as_ref()?;
        let path = self.list.main();
        let empty = path.used_local_cid.is_empty() || path.remote_cids.active().is_empty();
        let wanted = !empty && config.numbering.allows(Numbering::Multiple);
        wanted.then(|| config.max_paths.clamp(1, MAX_PATHS) - 1)
    }

    /// Returns the transport parameters for multipath: `initial_max_path_id`, and the one of the single
    /// number space. A client offers everything that it supports, and a server sends its choice.
    pub(crate) fn multipath_parameters(&self) -> (Option<u32>, Option<u64>) {
        let allowed =
            self.config.multipath.as_ref().is_some_and(|config| config.numbering.allows(Numbering::Single));
        match self.side.is_client() {
            true => (self.initial_max_path_id(), allowed.then_some(SINGLE)),
            false if self.numbering.is_single() => (None, Some(SINGLE)),
            false => (self.initial_max_path_id(), None),
        }
    }

    /// Negotiates multipath from the peer's transport parameters.
    pub(crate) fn negotiate_multipath(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), TransportError> {
        let peer_cid = parameters.initial_source_connection_id.unwrap_or(ConnectionId::EMPTY);
        if parameters.initial_max_path_id.is_some() && peer_cid.is_empty() {
            // RFC 10069 §2.1
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "multipath with connection IDs of zero length",
            ));
        }
        let Some(config) = &self.config.multipath else { return Ok(()) };
        let multiple = self.initial_max_path_id().zip(parameters.initial_max_path_id);
        let single = config.numbering.allows(Numbering::Single) && parameters.single_number_space.is_some();
        if self.side.is_client() && multiple.is_some() && single {
            return Err(TransportError::new(
                TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
                "the server has not chosen how packets are numbered",
            ));
        }
        let scheduler = config.scheduler;
        let cid_limits = (self.config.active_connection_id_limit, parameters.active_connection_id_limit);
        let prefers_single = config.numbering.preferred() == Numbering::Single;
        match multiple {
            Some((local_max, remote_max)) if !(single && prefers_single) => {
                self.multipath = Some(Box::new(Multipath::new(scheduler, local_max, remote_max, cid_limits)));
            }
            _ if single => {
                let max_paths = config.max_paths.clamp(1, MAX_PATHS);
                let mut multipath = Multipath::new(scheduler, 0, 0, cid_limits);
                let path = self.list.main_mut();
                let marked = path.recovery.marked(SpaceId::Data);
                self.numbering.share(&self.config.ack, marked);
                multipath.pool = Some(Pool::new(path, max_paths));
                self.multipath = Some(Box::new(multipath));
            }
            _ => {}
        }
        Ok(())
    }
}
