//! Changes of the host's resolvers while a VPN runs.

use std::net::IpAddr;
use std::sync::Arc;

use super::dns::Change;
use super::record::Record;
use crate::exit::Result;

/// The host's resolvers, which can be changed several times.
#[derive(Debug)]
pub(super) struct Resolvers {
    record: Arc<Record>,
    /// Name of the TUN device.
    device: String,
    addresses: Vec<IpAddr>,
    /// Change that was made; `None` if the host has its own resolvers.
    change: Option<Change>,
}

impl Resolvers {
    pub(super) fn new(record: Arc<Record>, device: &str) -> Self {
        Self { record, device: device.to_owned(), addresses: Vec::new(), change: None }
    }

    /// Sets these resolvers. Without any, the host has its own again.
    ///
    /// # Errors
    /// Fails if the configuration cannot be read or written.
    pub(super) fn set(&mut self, resolvers: &[IpAddr]) -> Result {
        if resolvers == self.addresses {
            return Ok(());
        }
        // The former change is the one on record until it is undone.
        if let Some(change) = self.change.take() {
            change.undo(&self.device)?;
        }
        self.addresses.clear();
        if resolvers.is_empty() {
            return self.record.update(|state| state.resolver = None);
        }
        let change = Change::to(resolvers)?;
        let resolver = match &change {
            Change::File(resolver) => Some(resolver.clone()),
            Change::Resolved => None,
        };
        self.record.update(|state| state.resolver = resolver)?;
        change.make(resolvers, &self.device)?;
        self.addresses = resolvers.to_vec();
        self.change = Some(change);
        Ok(())
    }
}
