//! State of one connection that its handles and the driver share: the core, and the tasks that wait for it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{Connection, ConnectionError, Event, Handle, PathState};
use anabranch_wire::{Dir, PathId, StreamId, Time, VarInt};
use bytes::Bytes;
#[cfg(any(feature = "http3", feature = "interfaces"))]
use tracing::Span;

use crate::driver_handle::DriverHandle;
use crate::lock::lock;
use crate::log::Log;
use crate::paths::{PathEvent, PathsState};
use crate::qlog::Trace;
use crate::session::Session;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::tokens::AddressToken;
use crate::wakers::WakerSet;

/// A connection in the endpoint's table.
pub(crate) struct ConnectionInner {
    pub(crate) driver: Arc<DriverHandle>,
    pub(crate) handle: Handle,
    /// `true` while the driver has an unhandled notification for this connection.
    dirty: AtomicBool,
    /// `true` while the connection waits in the driver's queue; only the driver uses this flag. It is stored
    /// here, not by handle, because handles are reused.
    queued: AtomicBool,
    /// `true` if the driver has put off sending, so that tasks that it has woken run before; only the driver uses
    /// this flag.
    put_off: AtomicBool,
    /// Number of handles that the application holds: connections and streams.
    users: AtomicUsize,
    state: Mutex<State>,
}

/// State behind a connection's lock, which is never held across an await.
pub(crate) struct State {
    pub(crate) core: Connection,
    /// Log of the connection's events.
    pub(crate) log: Log,
    /// Name of the server that a client connects to.
    pub(crate) server_name: Option<String>,
    pub(crate) ended: Option<ConnectionError>,
    /// `true` if early data was accepted; `None` until the handshake is complete.
    pub(crate) connected: Option<bool>,
    /// `true` if a client had keys for early data when the connection began. The keys are discarded when the
    /// handshake is complete, which may be before the application asks for early data.
    pub(crate) offers_early_data: bool,
    /// `true` if this host has failed to send a packet that the handshake needs since the flag was last
    /// taken.
    pub(crate) unreachable: bool,
    /// `true` once the handshake has determined the application protocol and the server's name.
    pub(crate) handshake_data: bool,
    /// Tasks that wait for the handshake, or for the end of the connection.
    pub(crate) progress: WakerSet,
    pub(crate) opening: ByDir,
    pub(crate) accepting: ByDir,
    pub(crate) datagram_readers: WakerSet,
    pub(crate) datagram_writers: WakerSet,
    /// Streams that have a receiving handle, with the task that waits to read.
    pub(crate) readers: HashMap<StreamId, Option<Waker>>,
    /// Streams that have a sending handle.
    pub(crate) writers: HashMap<StreamId, Writer>,
    /// Session of the application protocol that handles streams and datagrams, once it has begun.
    pub(crate) session: Option<Box<dyn Session>>,
    pub(crate) paths: PathsState,
    /// Trace to which events are written, if one was requested.
    pub(crate) trace: Option<Trace>,
}

/// State of a stream's sending handle.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Task that waits until more data can be written.
    pub(crate) room: Option<Waker>,
    /// Task that waits for the peer to stop or acknowledge the stream.
    pub(crate) end: Option<Waker>,
    pub(crate) stopped: Option<VarInt>,
}

/// Waiting tasks, by the direction of the streams that they wait for.
#[derive(Debug, Default)]
pub(crate) struct ByDir {
    bi: WakerSet,
    uni: WakerSet,
}

impl ByDir {
    pub(crate) fn of(&mut self, dir: Dir) -> &mut WakerSet {
        match dir {
            Dir::Bi => &mut self.bi,
            Dir::Uni => &mut self.uni,
        }
    }
}

impl ConnectionInner {
    pub(crate) fn new(driver: Arc<DriverHandle>, handle: Handle, core: Connection) -> Self {
        let state = State {
            offers_early_data: core.has_early_keys(),
            log: Log::begin(&core),
            core,
            server_name: None,
            ended: None,
            connected: None,
            unreachable: false,
            handshake_data: false,
            progress: WakerSet::default(),
            opening: ByDir::default(),
            accepting: ByDir::default(),
            datagram_readers: WakerSet::default(),
            datagram_writers: WakerSet::default(),
            readers: HashMap::new(),
            writers: HashMap::new(),
            session: None,
            paths: PathsState::default(),
            trace: None,
        };
        let users = AtomicUsize::new(0);
        Self {
            driver,
            handle,
            dirty: false.into(),
            queued: false.into(),
            put_off: false.into(),
            users,
            state: Mutex::new(state),
        }
    }

    /// Calls `read` with the connection's state, under its lock.
    pub(crate) fn with_state<R>(&self, read: impl FnOnce(&mut State) -> R) -> R {
        read(&mut lock(&self.state))
    }

    /// Changes the connection's state, and notifies the driver, which sends the resulting packets.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = self.with_state(change);
        self.mark_dirty();
        result
    }

    /// Returns the connection's span. Takes the lock.
    #[cfg(any(feature = "http3", feature = "interfaces"))]
    pub(crate) fn span(&self) -> Span {
        self.with_state(|state| state.log.span().clone())
    }

    /// Queues the connection for the driver, unless it is queued already.
    pub(crate) fn mark_dirty(&self) {
        if !self.dirty.swap(true, Ordering::AcqRel) {
            self.driver.mark_dirty(self.handle);
        }
    }

    /// Clears the notification. The driver calls this before it looks at the connection.
    pub(crate) fn clear_dirty(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    /// Returns whether the connection is queued; for the driver.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    /// Marks the connection as queued or not, and returns true if it was queued before; for the driver.
    pub(crate) fn set_queued(&self, queued: bool) -> bool {
        self.queued.swap(queued, Ordering::Relaxed)
    }

    /// Marks the connection as put off or not, and returns true if it was put off before; for the driver.
    pub(crate) fn set_put_off(&self, put_off: bool) -> bool {
        self.put_off.swap(put_off, Ordering::Relaxed)
    }

    /// Closes the connection, and wakes all waiting tasks at once.
    pub(crate) fn close(&self, code: VarInt, reason: Bytes) {
        let mut woken = Vec::new();
        self.update(|state| {
            let now = self.driver.now();
            state.core.close(now, code, reason);
            state.end(ConnectionError::LocallyClosed, &mut woken);
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Applies an event of the core, and collects the tasks to wake.
    fn apply(&mut self, driver: &DriverHandle, now: Time, event: Event, woken: &mut Vec<Waker>) {
        self.log.event(&self.core, &event);
        match event {
            Event::HandshakeDataReady => {
                self.handshake_data = true;
                self.progress.drain_into(woken);
            }
            Event::Connected { early_data_accepted } => {
                self.connected = Some(early_data_accepted);
                self.handshake_data = true;
                self.progress.drain_into(woken);
            }
            Event::Confirmed => self.progress.drain_into(woken),
            Event::PathChanged { path, tuple } => {
                self.progress.drain_into(woken);
                self.apply_path(PathEvent::Changed { path, tuple });
            }
            Event::PathOpened(path) => {
                self.progress.drain_into(woken);
                self.apply_path(PathEvent::Opened { path });
            }
            Event::PathSilent(_) => self.on_silent(driver),
            Event::PathsAvailable => self.progress.drain_into(woken),
            Event::ServerAddresses => self.apply_path(PathEvent::ServerAddresses),
            Event::PathState { path, state } => {
                self.ask_backup(path, state);
                self.progress.drain_into(woken);
                self.apply_path(PathEvent::State { path, state });
            }
            Event::PathAbandoned { path, code } => {
                self.progress.drain_into(woken);
                self.apply_path(PathEvent::Abandoned { path, code });
            }
            Event::NewToken(token) => {
                if let Some(server_name) = self.server_name.clone() {
                    driver.tokens().put(AddressToken { server_name, version: self.core.version(), token });
                }
            }
            Event::Stream(event) => self.apply_stream(now, event, woken),
            Event::DatagramReceived => match &mut self.session {
                Some(session) => session.on_datagrams(now, &mut self.core),
                None => self.datagram_readers.drain_into(woken),
            },
            Event::DatagramsUnblocked => self.datagram_writers.drain_into(woken),
            Event::Closed(error) => self.end(error, woken),
            _ => {}
        }
    }

    /// Applies all events of the core. Returns whether they may have produced packets to send.
    pub(crate) fn take_events(&mut self, driver: &DriverHandle, now: Time, woken: &mut Vec<Waker>) -> bool {
        let mut answered = false;
        while let Some(event) = self.core.poll_event() {
            answered |= self.session.is_some();
            self.apply(driver, now, event, woken);
        }
        if answered {
            self.wake_session(now, woken);
        }
        answered | std::mem::take(&mut self.paths.asks)
    }

    /// Sends a PING on a path that has become a backup. The peer may have made it a backup because the path
    /// has failed. An endpoint that only receives would not notice the failure otherwise.
    fn ask_backup(&mut self, path: PathId, state: PathState) {
        if state == PathState::Backup {
            self.core.ping(path);
            self.paths.asks = true;
        }
    }

    fn apply_stream(&mut self, now: Time, event: StreamEvent, woken: &mut Vec<Waker>) {
        if let Some(session) = &mut self.session {
            return session.on_stream_event(now, &mut self.core, event);
        }
        match event {
            StreamEvent::Opened(dir) => self.accepting.of(dir).drain_into(woken),
            StreamEvent::Available(dir) => self.opening.of(dir).drain_into(woken),
            StreamEvent::Readable(id) => woken.extend(self.readers.get_mut(&id).and_then(Option::take)),
            StreamEvent::Writable(id) => {
                woken.extend(self.writers.get_mut(&id).and_then(|writer| writer.room.take()));
            }
            StreamEvent::Finished(id) | StreamEvent::ResetAcknowledged(id) => {
                woken.extend(self.writers.get_mut(&id).and_then(|writer| writer.end.take()));
            }
            StreamEvent::Stopped(id, code) => {
                if let Some(writer) = self.writers.get_mut(&id) {
                    writer.stopped = Some(code);
                    woken.extend(writer.room.take().into_iter().chain(writer.end.take()));
                }
            }
            _ => {}
        }
    }

    /// Ends the connection, and collects all waiting tasks in `woken`. Only the first error is kept.
    pub(crate) fn end(&mut self, error: ConnectionError, woken: &mut Vec<Waker>) {
        if self.ended.is_none() {
            self.log.end(&error);
            self.ended = Some(error);
        }
        self.end_paths();
        self.progress.drain_into(woken);
        for dir in [Dir::Bi, Dir::Uni] {
            self.opening.of(dir).drain_into(woken);
            self.accepting.of(dir).drain_into(woken);
        }
        self.datagram_readers.drain_into(woken);
        self.datagram_writers.drain_into(woken);
        woken.extend(self.readers.values_mut().filter_map(Option::take));
        for writer in self.writers.values_mut() {
            woken.extend(writer.room.take().into_iter().chain(writer.end.take()));
        }
        if let Some(session) = &mut self.session {
            session.end(woken);
        }
    }

    /// Collects the tasks that the session's events wake. Returns whether the session has closed the
    /// connection.
    pub(crate) fn wake_session(&mut self, now: Time, woken: &mut Vec<Waker>) -> bool {
        let Some(session) = &mut self.session else { return false };
        let Err(error) = session.wake(now, &mut self.core, woken) else { return false };
        self.end(error, woken);
        true
    }

    /// Returns the code with which the connection closes when its last handle is dropped.
    fn farewell(&self) -> VarInt {
        self.session.as_ref().map_or(VarInt::ZERO, |session| session.close_code())
    }

    /// Returns `Err` if the connection has ended. Otherwise adds the task to the set that `waiting` selects.
    pub(crate) fn wait<T>(
        &mut self,
        cx: &Context<'_>,
        waiting: impl FnOnce(&mut Self) -> &mut WakerSet,
    ) -> Poll<Result<T, ConnectionError>> {
        if let Some(error) = &self.ended {
            return Poll::Ready(Err(error.clone()));
        }
        waiting(self).register(cx);
        Poll::Pending
    }
}

impl fmt::Debug for ConnectionInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionInner").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Reference of the application to a connection. When the last one is dropped, the connection closes without
/// an error.
#[derive(Debug)]
pub(crate) struct ConnectionRef(Arc<ConnectionInner>);

impl ConnectionRef {
    pub(crate) fn new(connection: Arc<ConnectionInner>) -> Self {
        connection.users.fetch_add(1, Ordering::Relaxed);
        Self(connection)
    }
}

impl ConnectionRef {
    /// Returns a reference to the connection that does not keep it open.
    #[cfg(feature = "interfaces")]
    pub(crate) fn inner(&self) -> Arc<ConnectionInner> {
        Arc::clone(&self.0)
    }
}

impl Clone for ConnectionRef {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if let Some(code) = self.0.with_state(|state| state.ended.is_none().then(|| state.farewell())) {
            self.0.close(code, Bytes::new());
        }
    }
}

impl Deref for ConnectionRef {
    type Target = ConnectionInner;

    fn deref(&self) -> &ConnectionInner {
        &self.0
    }
}
