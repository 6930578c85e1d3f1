//! Events of a connection's paths, for any number of listeners.

use anabranch_transport::{FourTuple, PathState};
use anabranch_wire::PathId;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Events kept for a listener that is slow; the oldest go first.
pub(crate) const MAX_PATH_EVENTS: usize = 64;

/// Something that happened to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// Client: this end has begun to open a path; [`PathEvent::Opened`] or [`PathEvent::Abandoned`] follows.
    Opening {
        /// The path.
        path: PathId,
        /// Its addresses.
        tuple: FourTuple,
    },
    /// The peer has answered on a path that was being opened: it carries data.
    Opened {
        /// The path.
        path: PathId,
    },
    /// An open path began to fail or works again, or one of the ends made it a backup or took that back.
    State {
        /// The path.
        path: PathId,
        /// New state of the path.
        state: PathState,
    },
    /// A path was given up, by either end.
    Abandoned {
        /// The path.
        path: PathId,
        /// Reason: a code of RFC 10069 §5, or of the application.
        code: u64,
    },
    /// A path runs between other addresses now: migration or NAT rebinding, validated.
    Changed {
        /// The path.
        path: PathId,
        /// Its new addresses.
        tuple: FourTuple,
    },
    /// Client: the server has announced or withdrawn further addresses of its own, see
    /// [`Connection::server_addresses`].
    ///
    /// [`Connection::server_addresses`]: crate::Connection::server_addresses
    ServerAddresses,
    /// This listener was so slow that this many events were dropped: look at [`Connection::paths`].
    ///
    /// [`Connection::paths`]: crate::Connection::paths
    Missed(u64),
}

/// Gives the events of a connection's paths, in order; see
/// [`Connection::path_events`](crate::Connection::path_events).
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
