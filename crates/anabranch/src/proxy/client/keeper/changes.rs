//! Changes of the connections, and the state that they publish.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::info;

use super::super::carrier::Carrier;
use super::super::connect::Live;
use super::super::error::ConnectFailure;
use super::super::fallback::{self, Http2Error};
use super::super::stream::StreamError;
use super::supervise::BRIEF;
use super::{Keeper, ProxyState, State};
use crate::lock::lock;
use crate::log::HTTP3;

impl Keeper {
    /// Lets tunnels use a connection by QUIC. That over TCP ends with its last tunnel.
    pub(super) fn on_connected(self: &Arc<Self>, live: Live) {
        let live = Arc::new(live);
        let mut state = lock(&self.state);
        if self.is_closed() {
            return;
        }
        self.watch_over(&live);
        state.live.push(live);
        state.fallback = None;
        state.is_udp_blocked = false;
        self.published.send_replace(ProxyState::Connected);
    }

    /// Lets tunnels use a connection over TCP until there is one by QUIC, which fails for `reason`.
    pub(super) fn on_fallback(
        self: &Arc<Self>,
        connection: fallback::Connection,
        reason: Arc<ConnectFailure>,
    ) {
        let connection = Arc::new(connection);
        let mut state = lock(&self.state);
        if self.is_closed() || !state.live.is_empty() {
            return;
        }
        info!(target: HTTP3, %reason, "connected to the proxy over TCP");
        self.watch_over_tcp(&connection);
        state.fallback = Some((connection, Instant::now()));
        state.is_udp_blocked = true;
        self.published.send_replace(ProxyState::Fallback(reason));
    }

    /// Reports a failed attempt.
    pub(super) fn on_failed(&self, failure: Arc<ConnectFailure>) {
        let state = lock(&self.state);
        info!(target: HTTP3, error = %failure, "cannot connect to the proxy");
        self.published.send_modify(|published| {
            // With another connection, only a tunnel that wanted a second one is affected.
            let has_none = state.live.is_empty() && state.fallback.is_none();
            if has_none && !matches!(published, ProxyState::Closed) {
                *published = ProxyState::Failing(failure);
            }
        });
    }

    /// Leaves a connection as soon as it ends or accepts no more requests.
    fn watch_over(self: &Arc<Self>, live: &Arc<Live>) {
        let (keeper, live) = (Arc::clone(self), Arc::clone(live));
        tokio::spawn(async move {
            let reason = tokio::select! {
                error = live.http3.closed() => Some(error),
                going = live.http3.going_away() => going.err(),
                () = keeper.closed() => return,
            };
            keeper.leave(&Carrier::Quic(live), reason.map(StreamError::Http3));
        });
    }

    /// Leaves a connection over TCP as soon as it ends. It may end because nobody but this task knows it.
    fn watch_over_tcp(self: &Arc<Self>, connection: &Arc<fallback::Connection>) {
        let (keeper, closed) = (Arc::clone(self), connection.closed());
        let connection = Arc::downgrade(connection);
        tokio::spawn(async move {
            let reason = tokio::select! {
                reason = closed => reason,
                () = keeper.closed() => return,
            };
            if let Some(connection) = connection.upgrade() {
                keeper.leave(&Carrier::Tcp(connection), Some(reason.into()));
            }
        });
    }

    /// Stops opening tunnels on a connection that is lost, or that the proxy is about to close.
    pub(in crate::proxy::client) fn leave(&self, carrier: &Carrier, reason: Option<StreamError>) {
        let mut state = lock(&self.state);
        let fallback = state.fallback.as_ref().map(|(_, since)| *since);
        if !state.remove(carrier) {
            return;
        }
        state.wanted = 1;
        if matches!(carrier, Carrier::Tcp(_)) && fallback.is_some_and(|since| since.elapsed() >= BRIEF) {
            self.stranded.notify_one();
            self.hurry();
        }
        info!(target: HTTP3, reason = reason.as_ref().map(tracing::field::display), "the proxy's connection ends");
        let is_last = state.live.is_empty() && state.fallback.is_none();
        // A proxy closes connections that nobody uses; the next one replaces it unnoticed.
        let reason = reason.filter(|reason| !matches!(reason, StreamError::Http2(Http2Error::GoneAway)));
        self.published.send_modify(|published| {
            if is_last
                && !matches!(published, ProxyState::Closed)
                && let Some(reason) = reason
            {
                *published = ProxyState::Lost(Arc::new(reason));
            }
        });
    }
}

impl State {
    /// Removes a connection. Returns whether tunnels used it.
    fn remove(&mut self, carrier: &Carrier) -> bool {
        match carrier {
            Carrier::Quic(live) => {
                let before = self.live.len();
                self.live.retain(|other| !Arc::ptr_eq(other, live));
                self.live.len() < before
            }
            Carrier::Tcp(connection) => {
                self.fallback.take_if(|(other, _)| Arc::ptr_eq(other, connection)).is_some()
            }
        }
    }
}
