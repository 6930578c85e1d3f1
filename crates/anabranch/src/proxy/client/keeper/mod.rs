//! Keeps connections to the proxy: one for all tunnels, and a second one when the peer's stream limit is
//! reached or the first one is lost. One over TCP takes their place while QUIC cannot reach the proxy.

mod attempt;
mod changes;
mod supervise;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::supervise::supervise;
use super::carrier::Carrier;
use super::config::ProxyConfig;
use super::connect::{Live, Reach};
use super::error::ConnectFailure;
use super::fallback;
use super::stream::StreamError;
use crate::lock::lock;
use crate::sync::Mutex;

/// Maximum number of connections to the proxy that accept tunnels at the same time.
pub const MAX_CONNECTIONS: usize = 2;
/// Maximum number of tunnels that wait for a connection at the same time. Further ones fail at once.
pub const MAX_WAITING: usize = 1_024;

/// State of the client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProxyState {
    /// No connection was needed so far, or the first one is being set up.
    Idle,
    /// There is a connection.
    Connected,
    /// There is a connection over TCP, on one path, because QUIC cannot reach the proxy for this reason. The client keeps
    /// trying QUIC, which new tunnels use as soon as it works.
    Fallback(Arc<ConnectFailure>),
    /// The last connection was lost for this reason, and another one is being set up.
    Lost(Arc<StreamError>),
    /// The last attempt to connect failed. The client tries again.
    Failing(Arc<ConnectFailure>),
    /// The client was closed.
    Closed,
}

/// State that the client's tasks and tunnels share.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) config: ProxyConfig,
    pub(super) reach: Reach,
    state: Mutex<State>,
    /// Published state. Every change of `state` that a task may wait for marks it as changed.
    published: watch::Sender<ProxyState>,
    /// Notified when a tunnel waits, which shortens the pause before the next attempt.
    urgent: Notify,
    /// Notified when the connection over TCP is lost, upon which the next attempt begins at once.
    stranded: Notify,
    /// `true` once connections over TCP are to be aborted. Each of them has a receiver.
    pub(super) farewell: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    live: Vec<Arc<Live>>,
    /// Connection over TCP, which tunnels use while `live` is empty, and the time at which it was set up.
    fallback: Option<(Arc<fallback::Connection>, Instant)>,
    /// `true` if the last connection was one over TCP.
    is_udp_blocked: bool,
    /// Number of connections that there should be.
    wanted: usize,
    waiting: usize,
    is_supervised: bool,
}

/// Next action of the supervisor.
enum Step {
    Connect,
    Rest,
    End,
}

impl Keeper {
    pub(super) fn new(config: ProxyConfig) -> Self {
        let state = State {
            live: Vec::new(),
            fallback: None,
            is_udp_blocked: false,
            wanted: 0,
            waiting: 0,
            is_supervised: false,
        };
        Self {
            config,
            reach: Reach::default(),
            state: Mutex::new(state),
            published: watch::Sender::new(ProxyState::Idle),
            urgent: Notify::new(),
            stranded: Notify::new(),
            farewell: watch::Sender::new(false),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ProxyState> {
        self.published.subscribe()
    }

    pub(super) fn published(&self) -> ProxyState {
        self.published.borrow().clone()
    }

    /// Returns the connections by QUIC that accept tunnels.
    pub(super) fn live(&self) -> Vec<Arc<Live>> {
        lock(&self.state).live.clone()
    }

    /// Returns the connections that accept tunnels: those by QUIC, and the one over TCP if there are none.
    pub(super) fn carriers(&self) -> Vec<Carrier> {
        let state = lock(&self.state);
        match (&state.live[..], &state.fallback) {
            ([], Some((connection, _))) => vec![Carrier::Tcp(Arc::clone(connection))],
            (live, _) => live.iter().map(|live| Carrier::Quic(Arc::clone(live))).collect(),
        }
    }

    /// Returns whether a connection over TCP would help; `Some(true)` if the last connection was one, too.
    fn wants_fallback(&self) -> Option<bool> {
        let state = lock(&self.state);
        let has_none = state.live.is_empty() && state.fallback.is_none();
        (self.config.fallback && has_none).then_some(state.is_udp_blocked)
    }

    /// Returns whether there is a connection over TCP for tunnels.
    fn has_fallback(&self) -> bool {
        lock(&self.state).fallback.is_some()
    }

    /// Requests that there are at least `wanted` connections, but no more than [`MAX_CONNECTIONS`].
    pub(super) fn want(self: &Arc<Self>, wanted: usize) {
        let mut state = lock(&self.state);
        let more = wanted.min(MAX_CONNECTIONS);
        if state.wanted < more {
            state.wanted = more;
            self.published.send_modify(|_| ());
        }
        if !std::mem::replace(&mut state.is_supervised, true) {
            tokio::spawn(supervise(Arc::clone(self)));
        }
    }

    /// Ends the pause before the next attempt early.
    pub(super) fn hurry(&self) {
        self.urgent.notify_one();
    }

    /// Counts a tunnel that waits for a connection; `None` if too many wait already.
    pub(super) fn wait(self: &Arc<Self>) -> Option<Waiting> {
        let mut state = lock(&self.state);
        if state.waiting >= MAX_WAITING {
            return None;
        }
        state.waiting += 1;
        self.hurry();
        Some(Waiting(Arc::clone(self)))
    }

    /// Ends the client's tasks. Open tunnels keep their connections.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.live.clear();
        state.fallback = None;
        self.published.send_replace(ProxyState::Closed);
    }

    fn step(&self) -> Step {
        let state = lock(&self.state);
        if self.is_closed() {
            Step::End
        } else if state.live.len() < state.wanted {
            Step::Connect
        } else {
            Step::Rest
        }
    }

    fn is_closed(&self) -> bool {
        matches!(*self.published.borrow(), ProxyState::Closed)
    }

    /// Waits until the client is closed.
    async fn closed(&self) {
        // The sender is a field of `self`, so the channel cannot end.
        let _ = self.subscribe().wait_for(|state| matches!(state, ProxyState::Closed)).await;
    }
}

/// A tunnel that waits for a connection.
pub(super) struct Waiting(Arc<Keeper>);

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.0.state).waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::ClientConfig;

    use super::*;
    use crate::{SelfSigned, config};

    pub(super) fn keeper() -> Arc<Keeper> {
        let roots = SelfSigned::new(["localhost"]).unwrap().roots().unwrap();
        let quic: ClientConfig = config::client(roots, ["h3"]).unwrap();
        Arc::new(Keeper::new(ProxyConfig::new("https://localhost:1", quic).unwrap()))
    }

    #[test]
    fn max_waiting_tunnels_wait() {
        let keeper = keeper();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| keeper.wait().unwrap()).collect();
        assert!(keeper.wait().is_none());
        waiting.pop();
        assert!(keeper.wait().is_some());
    }

    #[tokio::test]
    async fn no_more_than_max_connections_are_wanted() {
        let keeper = keeper();
        keeper.want(10);
        assert_eq!(lock(&keeper.state).wanted, MAX_CONNECTIONS);
        keeper.end();
    }
}
