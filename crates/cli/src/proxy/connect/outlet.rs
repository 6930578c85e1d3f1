//! Sender of a UDP flow's open tunnel, which the reader of a program's datagrams calls directly: a queue to the flow's task would
//! overflow whenever that task is delayed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch::proxy::client::{SendPayloadError, UdpSender};
use tokio::time::Instant;
use tracing::debug;

use super::drops::Drops;
use super::seen::Account;

/// Sender of a flow, while its tunnel is open. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Outlet(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    sender: Option<(UdpSender, Arc<Account>, Drops)>,
    last: Instant,
}

impl Default for Outlet {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { sender: None, last: Instant::now() })))
    }
}

impl Outlet {
    /// Opens the outlet. It is closed when the returned guard is dropped, so that nothing keeps the tunnel open.
    pub(super) fn open(&self, sender: UdpSender, account: Arc<Account>, drops: &Drops) -> Open<'_> {
        self.lock().sender = Some((sender, account, drops.clone()));
        Open(self)
    }

    /// Sends a payload, or drops it, as a link with a smaller MTU or a full queue would. Returns `false`, without sending it, if the
    /// outlet is not open.
    pub(super) fn send(&self, payload: &[u8]) -> bool {
        let mut state = self.lock();
        let Some((sender, account, drops)) = &state.sender else { return false };
        match sender.send(payload) {
            Ok(()) => account.traffic.add_sent(payload.len() as u64),
            // The task of the flow notices the end of the tunnel as well.
            Err(SendPayloadError::Ended(_)) => {}
            Err(error) => {
                drops.count();
                debug!(target: "anabranch::proxy", target = %account.target, %error, "dropped a datagram");
            }
        }
        state.last = Instant::now();
        true
    }

    /// Returns the time at which the last payload was sent, or at which the outlet was created.
    pub(super) fn last_sent(&self) -> Instant {
        self.lock().last
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of an open outlet.
#[derive(Debug)]
pub(super) struct Open<'o>(&'o Outlet);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.lock().sender = None;
    }
}
