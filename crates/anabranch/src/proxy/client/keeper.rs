//! Supervisor of the connections to the proxy: one for all tunnels, a second one when the proxy's stream limit is
//! reached, and a new one when the last one is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

use super::config::ProxyConfig;
use super::connect::{Live, Reach};
use super::error::ConnectFailure;
use crate::http3;
use crate::lock::lock;
use crate::log::HTTP3;

/// Maximum number of connections to the proxy that accept tunnels at the same time.
pub const MAX_CONNECTIONS: usize = 2;
/// Maximum number of tunnels that wait for a connection or a free stream at the same time. Further ones fail at once.
pub const MAX_WAITING: usize = 1_024;
/// Pause after the first failed attempt to connect. It doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
/// Maximum pause between attempts to connect.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Lifetime below which a connection counts as a failed attempt. The proxy may close a connection at once, for instance if it
/// rejects the client's certificate, which TLS 1.3 reports after the client's handshake is complete (RFC 8446 §4.4.2.4).
const BRIEF: Duration = Duration::from_secs(1);

/// State of the client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProxyState {
    /// No connection was needed so far, or the first one is being set up.
    Idle,
    /// There is a connection, or another one is being set up because the proxy accepts no more requests on the last one.
    Connected,
    /// The last connection was lost for this reason, and another one is being set up.
    Lost(Arc<http3::Error>),
    /// The last attempt to connect failed for this reason, and the client repeats it after a pause.
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
    /// Published state. It is marked as changed with each change of `state` for which a task may wait.
    published: watch::Sender<ProxyState>,
    /// Notified when a tunnel begins to wait, which shortens the pause before the next attempt.
    urgent: Notify,
}

#[derive(Debug)]
struct State {
    live: Vec<Arc<Live>>,
    /// Number of connections that the supervisor keeps open.
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
        let state = State { live: Vec::new(), wanted: 0, waiting: 0, is_supervised: false };
        Self {
            config,
            reach: Reach::default(),
            state: Mutex::new(state),
            published: watch::Sender::new(ProxyState::Idle),
            urgent: Notify::new(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ProxyState> {
        self.published.subscribe()
    }

    pub(super) fn published(&self) -> ProxyState {
        self.published.borrow().clone()
    }

    /// Returns the connections that accept tunnels.
    pub(super) fn live(&self) -> Vec<Arc<Live>> {
        lock(&self.state).live.clone()
    }

    /// Sets the number of connections that the supervisor keeps open to at least `wanted`, but at most [`MAX_CONNECTIONS`].
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

    /// Counts a tunnel that waits for a connection or a free stream; `None` if [`MAX_WAITING`] wait already.
    pub(super) fn wait(self: &Arc<Self>) -> Option<Waiting> {
        let mut state = lock(&self.state);
        if state.waiting >= MAX_WAITING {
            return None;
        }
        state.waiting += 1;
        self.hurry();
        Some(Waiting(Arc::clone(self)))
    }

    /// Opens no more tunnels on a connection that is lost, or on which the proxy accepts no more requests (GOAWAY).
    pub(super) fn leave(&self, live: &Arc<Live>, reason: Option<http3::Error>) {
        let mut state = lock(&self.state);
        let before = state.live.len();
        state.live.retain(|other| !Arc::ptr_eq(other, live));
        if state.live.len() == before {
            return;
        }
        state.wanted = 1;
        info!(target: HTTP3, reason = reason.as_ref().map(tracing::field::display), "the proxy's connection ends");
        let is_last = state.live.is_empty();
        self.published.send_modify(|published| {
            if is_last
                && !matches!(published, ProxyState::Closed)
                && let Some(reason) = reason
            {
                *published = ProxyState::Lost(Arc::new(reason));
            }
        });
    }

    /// Ends the client's tasks. Open tunnels keep their connections.
    pub(super) fn end(&self) {
        lock(&self.state).live.clear();
        self.published.send_replace(ProxyState::Closed);
    }

    fn step(&self) -> Step {
        let state = lock(&self.state);
        if matches!(*self.published.borrow(), ProxyState::Closed) {
            Step::End
        } else if state.live.len() < state.wanted {
            Step::Connect
        } else {
            Step::Rest
        }
    }

    fn on_connected(self: &Arc<Self>, live: Live) {
        let live = Arc::new(live);
        let mut state = lock(&self.state);
        if matches!(*self.published.borrow(), ProxyState::Closed) {
            return;
        }
        tokio::spawn(watch_over(Arc::clone(self), Arc::clone(&live)));
        state.live.push(live);
        self.published.send_replace(ProxyState::Connected);
    }

    fn on_failed(&self, failure: ConnectFailure) {
        let state = lock(&self.state);
        info!(target: HTTP3, error = %failure, "cannot connect to the proxy");
        self.published.send_modify(|published| {
            // With another connection, only a tunnel that wanted a second one is affected.
            if state.live.is_empty() && !matches!(published, ProxyState::Closed) {
                *published = ProxyState::Failing(Arc::new(failure));
            }
        });
    }

    /// Waits until the client is closed.
    async fn closed(&self) {
        // The sender is a field of `self`, so the channel cannot end.
        let _ = self.subscribe().wait_for(|state| matches!(state, ProxyState::Closed)).await;
    }
}

/// Count of a tunnel that waits for a connection or a free stream, until it is dropped.
pub(super) struct Waiting(Arc<Keeper>);

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.0.state).waiting -= 1;
    }
}

/// Connects whenever there are fewer connections than wanted. Pauses after each failure, for longer with each further one.
async fn supervise(keeper: Arc<Keeper>) {
    let mut backoff = FIRST_BACKOFF;
    // Time at which the latest connection was set up.
    let mut newest: Option<Instant> = None;
    loop {
        let mut changes = keeper.subscribe();
        match keeper.step() {
            Step::End => return,
            Step::Rest => {
                let _ = changes.changed().await;
                continue;
            }
            Step::Connect => {}
        }
        match newest.take() {
            Some(newest) if newest.elapsed() < BRIEF && keeper.live().is_empty() => {}
            before => {
                if before.is_some() {
                    backoff = FIRST_BACKOFF;
                }
                let connected = tokio::select! {
                    connected = keeper.reach.connect(&keeper.config) => connected,
                    () = keeper.closed() => return,
                };
                match connected {
                    Ok(live) => {
                        newest = Some(Instant::now());
                        keeper.on_connected(live);
                        continue;
                    }
                    Err(failure) => keeper.on_failed(failure),
                }
            }
        }
        tokio::select! {
            () = pause(&keeper, backoff) => {}
            () = keeper.closed() => return,
        }
        backoff = (2 * backoff).min(MAX_BACKOFF);
    }
}

/// Waits for 75 % to 125 % of `backoff`. The random part spreads the attempts of all clients after a proxy has restarted.
/// A tunnel that begins to wait ends the pause, but not before [`FIRST_BACKOFF`].
async fn pause(keeper: &Keeper, backoff: Duration) {
    let mut random = [0; 1];
    // Without randomness the pause has its usual length.
    let _ = getrandom::fill(&mut random);
    let pause = backoff.mul_f64(0.75 + f64::from(random[0]) / 512.0);
    sleep(pause.min(FIRST_BACKOFF)).await;
    let _ = timeout(pause.saturating_sub(FIRST_BACKOFF), keeper.urgent.notified()).await;
}

/// Waits until a connection is lost or accepts no more requests, and then opens no more tunnels on it.
async fn watch_over(keeper: Arc<Keeper>, live: Arc<Live>) {
    let reason = tokio::select! {
        error = live.http3.closed() => Some(error),
        going = live.http3.going_away() => going.err(),
        () = keeper.closed() => return,
    };
    keeper.leave(&live, reason);
}

#[cfg(test)]
mod tests {
    use anabranch_transport::ClientConfig;

    use super::*;
    use crate::{SelfSigned, config};

    fn keeper() -> Arc<Keeper> {
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

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_max_backoff_and_a_waiting_tunnel_shortens_them() {
        let keeper = keeper();
        let begin = Instant::now();
        pause(&keeper, MAX_BACKOFF).await;
        let whole = begin.elapsed();
        assert!(whole >= MAX_BACKOFF.mul_f64(0.74) && whole <= MAX_BACKOFF.mul_f64(1.26), "{whole:?}");
        let begin = Instant::now();
        keeper.urgent.notify_one();
        pause(&keeper, MAX_BACKOFF).await;
        let short = begin.elapsed();
        assert!(short >= FIRST_BACKOFF && short <= 2 * FIRST_BACKOFF, "{short:?}");
    }
}
