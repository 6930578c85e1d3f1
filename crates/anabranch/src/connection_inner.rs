//! One connection as its handles and the driver share it: the core, and the tasks that wait for it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{Connection, ConnectionError, Event, Handle, PathState};
use anabranch_wire::{Dir, PathId, StreamId, Time};
use bytes::Bytes;
#[cfg(any(feature = "http3", feature = "interfaces"))]
use tracing::Span;

use crate::driver_handle::DriverHandle;
use crate::lock::lock;
use crate::log::Log;
use crate::paths::{PathEvent, PathsState};
use crate::qlog::Trace;
use crate::session::Session;
use crate::tokens::AddressToken;
use crate::wakers::WakerSet;

/// A connection in the endpoint's table.
pub(crate) struct ConnectionInner {
    pub(crate) driver: Arc<DriverHandle>,
    pub(crate) handle: Handle,
    /// Set when the driver has been notified that this connection needs its attention.
    dirty: AtomicBool,
    /// `true` while the connection waits in the driver's queue; only the driver uses it. Handles are reused
    /// for other connections, this structure is not.
    queued: AtomicBool,
    /// Handles of the application: connections and streams.
    users: AtomicUsize,
    state: Mutex<State>,
}

/// State behind a connection's lock, which is never held across an await.
pub(crate) struct State {
    pub(crate) core: Connection,
    /// Tells subscribers what happens.
    pub(crate) log: Log,
    /// Name of the server that a client connects to.
    pub(crate) server_name: Option<String>,
    pub(crate) ended: Option<ConnectionError>,
    /// `true` if early data was accepted; `None` until the handshake is complete.
    pub(crate) connected: Option<bool>,
    /// `true` if a client had keys for early data when the connection began. They go when the handshake is
    /// complete, which may be before the application asks for early data.
    pub(crate) offers_early_data: bool,
    /// Set when the host could not send a packet that the handshake needs.
    pub(crate) unreachable: bool,
    /// Set when the handshake has determined the application protocol and the server's name.
    pub(crate) handshake_data: bool,
    /// Tasks that wait for the handshake, or for the end.
    pub(crate) progress: WakerSet,
    pub(crate) opening: ByDir,
    pub(crate) accepting: ByDir,
    pub(crate) datagram_readers: WakerSet,
    pub(crate) datagram_writers: WakerSet,
    /// Streams that have a receiving handle, with the task that waits to read.
    pub(crate) readers: HashMap<StreamId, Option<Waker>>,
    /// Streams that have a sending handle.
    pub(crate) writers: HashMap<StreamId, Writer>,
    /// The application protocol whose streams and datagrams they are, once it has begun.
    pub(crate) session: Option<Box<dyn Session>>,
    pub(crate) paths: PathsState,
    /// Trace to which events are written, if one was requested.
    pub(crate) trace: Option<Trace>,
}

/// A sending handle's part of the state.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The task that waits for room.
    pub(crate) room: Option<Waker>,
    /// The task that waits for the peer to stop or acknowledge the stream.
    pub(crate) end: Option<Waker>,
    pub(crate) stopped: Option<u64>,
}

/// Tasks by direction of the streams that they wait for.
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
        Self { driver, handle, dirty: false.into(), queued: false.into(), users, state: Mutex::new(state) }
    }

    /// Looks at the connection.
    pub(crate) fn with_state<R>(&self, read: impl FnOnce(&mut State) -> R) -> R {
        read(&mut lock(&self.state))
    }

    /// Changes the connection and has the driver send what follows from that.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = self.with_state(change);
        self.mark_dirty();
        result
    }

    /// Gives the connection's span; takes the lock.
    #[cfg(any(feature = "http3", feature = "interfaces"))]
    pub(crate) fn span(&self) -> Span {
        self.with_state(|state| state.log.span().clone())
    }

    /// Tells the driver to look here.
    pub(crate) fn mark_dirty(&self) {
        if !self.dirty.swap(true, Ordering::AcqRel) {
            self.driver.mark_dirty(self.handle);
        }
    }

    /// Clears the driver's notification; the driver calls this before it looks at the connection.
    pub(crate) fn clear_dirty(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    /// Marks the connection as queued or not, and returns whether it was queued; for the driver.
    pub(crate) fn set_queued(&self, queued: bool) -> bool {
        self.queued.swap(queued, Ordering::Relaxed)
    }

    /// Closes the connection; everybody who waits learns of it at once.
    pub(crate) fn close(&self, code: u64, reason: Bytes) {
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
    /// Takes over an event of the core and gathers whom to wake.
    fn apply(&mut self, driver: &DriverHandle, event: Event, woken: &mut Vec<Waker>) {
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
            Event::Stream(event) => self.apply_stream(driver, event, woken),
            Event::DatagramReceived => match &mut self.session {
                Some(session) => session.on_datagrams(driver.now(), &mut self.core),
                None => self.datagram_readers.drain_into(woken),
            },
            Event::DatagramsUnblocked => self.datagram_writers.drain_into(woken),
            Event::Closed(error) => self.end(error, woken),
        }
    }

    /// Takes over all events of the core. Says whether there may be something to send because of them.
    pub(crate) fn take_events(&mut self, driver: &DriverHandle, woken: &mut Vec<Waker>) -> bool {
        let mut answered = false;
        while let Some(event) = self.core.poll_event() {
            answered |= self.session.is_some();
            self.apply(driver, event, woken);
        }
        if answered {
            self.wake_session(driver.now(), woken);
        }
        answered | std::mem::take(&mut self.paths.asks)
    }

    /// Asks whether a path still works that has become a backup: if the peer made it one since it fails, an
    /// end that only receives would not learn of that.
    fn ask_backup(&mut self, path: PathId, state: PathState) {
        if state == PathState::Backup {
            self.core.ping(path);
            self.paths.asks = true;
        }
    }

    fn apply_stream(&mut self, driver: &DriverHandle, event: StreamEvent, woken: &mut Vec<Waker>) {
        if let Some(session) = &mut self.session {
            return session.on_stream_event(driver.now(), &mut self.core, event);
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
        }
    }

    /// Ends the connection and gathers all waiting tasks in `woken`. The first reason is kept.
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

    /// Gathers the tasks that the session's events wake. Says whether the session has closed the connection.
    pub(crate) fn wake_session(&mut self, now: Time, woken: &mut Vec<Waker>) -> bool {
        let Some(session) = &mut self.session else { return false };
        let Err(error) = session.wake(now, &mut self.core, woken) else { return false };
        self.end(error, woken);
        true
    }

    /// Returns the code with which the connection closes when its last handle is dropped.
    fn farewell(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.close_code())
    }

    /// Returns `Err` once the connection has ended, else has the task woken by `waiting`.
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

/// The application's hold on a connection. When the last one goes, the connection closes without an error.
#[derive(Debug)]
pub(crate) struct ConnectionRef(Arc<ConnectionInner>);

impl ConnectionRef {
    pub(crate) fn new(connection: Arc<ConnectionInner>) -> Self {
        connection.users.fetch_add(1, Ordering::Relaxed);
        Self(connection)
    }
}

impl ConnectionRef {
    /// Returns the connection; the result does not keep it open.
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
