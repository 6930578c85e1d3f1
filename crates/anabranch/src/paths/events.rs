//! Events of a connection's paths, for any number of listeners.

use anabranch_transport::{FourTuple, PathState};
use anabranch_wire::{PathId, VarInt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Maximum number of events that are kept for a slow listener. Beyond it, the oldest is dropped.
pub(crate) const MAX_PATH_EVENTS: usize = 64;

/// Event of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// Client: this endpoint has begun to open a path. [`PathEvent::Opened`] or [`PathEvent::Abandoned`]
    /// follows.
    Opening {
        /// The path.
        path: PathId,
        /// Its four-tuple.
        tuple: FourTuple,
    },
    /// The peer has responded on a path that was being opened. From now on the path carries data.
    Opened {
        /// The path.
        path: PathId,
    },
    /// The state of an open path has changed: it fails or works again, or an endpoint has made it a backup or
    /// made it available again.
    State {
        /// The path.
        path: PathId,
        /// New state of the path.
        state: PathState,
    },
    /// A path was abandoned, by either endpoint.
    Abandoned {
        /// The path.
        path: PathId,
        /// Error code of RFC 10069 §5, or of the application.
        code: VarInt,
    },
    /// A path has a new, validated four-tuple, after a migration or a NAT rebinding.
    Changed {
        /// The path.
        path: PathId,
        /// Its new four-tuple.
        tuple: FourTuple,
    },
    /// Client: the server has announced or withdrawn alternative addresses; see
    /// [`Connection::server_addresses`].
    ///
    /// [`Connection::server_addresses`]: crate::Connection::server_addresses
    ServerAddresses,
    /// This listener was too slow, so this many events were dropped. [`Connection::paths`] returns the
    /// present state.
    ///
    /// [`Connection::paths`]: crate::Connection::paths
    Missed(u64),
}

/// Stream of path events, in order; see [`Connection::path_events`](crate::Connection::path_events).
#[derive(Debug)]
pub struct PathEvents(Option<broadcast::Receiver<PathEvent>>);

impl PathEvents {
    pub(crate) fn subscribe(sender: &mut Option<broadcast::Sender<PathEvent>>, ended: bool) -> Self {
        if ended {
            return Self(None);
        }
        Self(Some(sender.get_or_insert_with(|| broadcast::channel(MAX_PATH_EVENTS).0).subscribe()))
    }

    /// Waits for the next event; `None` once the connection has ended and all events were returned.
    pub async fn next(&mut self) -> Option<PathEvent> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(PathEvent::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_that_sleeps_is_told_what_it_missed() {
        let mut sender = None;
        let mut events = PathEvents::subscribe(&mut sender, false);
        for path in 0..MAX_PATH_EVENTS as u32 + 5 {
            sender.as_ref().unwrap().send(PathEvent::Opened { path: PathId(path) }).unwrap();
        }
        sender = None;
        assert_eq!(events.next().await, Some(PathEvent::Missed(5)));
        assert_eq!(events.next().await, Some(PathEvent::Opened { path: PathId(5) }));
        let mut left = 0;
        while events.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, MAX_PATH_EVENTS - 1);
        assert!(sender.is_none());
        assert_eq!(PathEvents::subscribe(&mut sender, true).next().await, None);
    }
}
