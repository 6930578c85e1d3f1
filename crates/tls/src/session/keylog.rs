//! Extraction of traffic secrets from rustls through its key log.
//!
//! rustls returns finished keys, whose labels are fixed when the session is created. Compatible version
//! negotiation changes the labels later. The key log receives the secrets themselves. Each session therefore
//! has its own key log, which stores the secrets and forwards them to the configured key log.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_wire::Side;
use rustls::KeyLog;

use crate::hkdf::Secret;
use crate::{Secrets, Suite};

/// Key log of one session.
pub(super) struct SecretTap {
    forward: Arc<dyn KeyLog>,
    caught: Mutex<Caught>,
}

/// Secrets that the session has not taken yet, by their labels in the NSS key log format.
#[derive(Default)]
struct Caught {
    early: Option<Secret>,
    client_handshake: Option<Secret>,
    server_handshake: Option<Secret>,
    client_traffic: Option<Secret>,
    server_traffic: Option<Secret>,
    exporter: Option<Secret>,
}

impl Caught {
    fn slot(&mut self, label: &str) -> Option<&mut Option<Secret>> {
        match label {
            "CLIENT_EARLY_TRAFFIC_SECRET" => Some(&mut self.early),
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Some(&mut self.client_handshake),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Some(&mut self.server_handshake),
            "CLIENT_TRAFFIC_SECRET_0" => Some(&mut self.client_traffic),
            "SERVER_TRAFFIC_SECRET_0" => Some(&mut self.server_traffic),
            "EXPORTER_SECRET" => Some(&mut self.exporter),
            _ => None,
        }
    }
}

impl SecretTap {
    pub(super) fn new(forward: Arc<dyn KeyLog>) -> Arc<Self> {
        Arc::new(Self { forward, caught: Mutex::default() })
    }

    pub(super) fn take_early(&self) -> Option<Secret> {
        self.caught().early.take()
    }

    pub(super) fn take_handshake(&self, side: Side, suite: Suite) -> Option<Secrets> {
        let mut caught = self.caught();
        Some(secrets(side, suite, caught.client_handshake.take()?, caught.server_handshake.take()?))
    }

    pub(super) fn take_traffic(&self, side: Side, suite: Suite) -> Option<Secrets> {
        let mut caught = self.caught();
        Some(secrets(side, suite, caught.client_traffic.take()?, caught.server_traffic.take()?))
    }

    pub(super) fn take_exporter(&self) -> Option<Secret> {
        self.caught().exporter.take()
    }

    /// Returns whether the handshake secrets exist and were not taken yet.
    pub(super) fn has_handshake(&self) -> bool {
        self.caught().server_handshake.is_some()
    }

    /// Locks the stored secrets. Nothing panics while the lock is held, so a poisoned lock cannot hide an
    /// inconsistent state.
    fn caught(&self) -> MutexGuard<'_, Caught> {
        self.caught.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn secrets(side: Side, suite: Suite, client: Secret, server: Secret) -> Secrets {
    let (local, remote) = if side.is_client() { (client, server) } else { (server, client) };
    Secrets { suite, local, remote }
}

impl KeyLog for SecretTap {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if let Some(slot) = self.caught().slot(label) {
            *slot = Secret::new(secret);
        }
        if self.forward.will_log(label) {
            self.forward.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        self.caught().slot(label).is_some() || self.forward.will_log(label)
    }
}

impl fmt::Debug for SecretTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretTap")
    }
}
