//! State of an HTTP/3 session that its handles and the driver share, and the tasks that wait for it.

use std::any::Any;
use std::collections::HashMap;
use std::task::{Context, Waker};

use anabranch_http3::{self as h3, Code, Event, Session};
use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{Connection, ConnectionError};
use anabranch_wire::{StreamId, Time, VarInt};
use bytes::Bytes;

use super::Error;
use crate::connection_inner::{ConnectionInner, State};
use crate::session;
use crate::wakers::WakerSet;

/// HTTP/3 part of a connection's state.
pub(crate) struct Http3State {
    session: Session,
    tasks: Tasks,
    /// The peer's violation for which the connection was closed.
    fault: Option<h3::Error>,
}

/// Tasks that wait for a session.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Waiting tasks by stream; streams without a waiting task have no entry.
    by_stream: HashMap<StreamId, StreamTasks>,
    /// Tasks of a server that wait for requests.
    pub(super) accepting: WakerSet,
    /// Tasks of a client that wait until the server allows more requests.
    pub(super) requesting: WakerSet,
    /// Tasks that wait for the peer's SETTINGS or GOAWAY.
    pub(super) progress: WakerSet,
}

/// Tasks that wait for one stream: at most one for each half, and one for datagrams.
#[derive(Debug, Default)]
struct StreamTasks {
    reader: Option<Waker>,
    writer: Option<Waker>,
    datagrams: Option<Waker>,
}

/// Parts of the state that a handle may use while it holds the connection's lock.
pub(super) struct Access<'a> {
    pub(super) session: &'a mut Session,
    pub(super) core: &'a mut Connection,
    pub(super) tasks: &'a mut Tasks,
    pub(super) now: Time,
    /// `true` once the handshake is complete.
    pub(super) connected: bool,
    fault: Option<&'a h3::Error>,
    ended: Option<&'a ConnectionError>,
}

impl Access<'_> {
    /// Returns the QUIC error that ended the connection, if it has ended.
    pub(super) fn connection_error(&self) -> Option<ConnectionError> {
        self.ended.cloned()
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub(super) fn ended(&self) -> Option<Error> {
        let ended = self.ended?;
        Some(match self.fault {
            Some(fault) => Error::Protocol(fault.clone()),
            None => Error::ConnectionLost(ended.clone()),
        })
    }
}

impl Tasks {
    pub(super) fn wait_to_read(&mut self, id: StreamId, cx: &Context<'_>) {
        self.by_stream.entry(id).or_default().reader = Some(cx.waker().clone());
    }

    pub(super) fn wait_to_write(&mut self, id: StreamId, cx: &Context<'_>) {
        self.by_stream.entry(id).or_default().writer = Some(cx.waker().clone());
    }

    pub(super) fn wait_for_datagrams(&mut self, id: StreamId, cx: &Context<'_>) {
        self.by_stream.entry(id).or_default().datagrams = Some(cx.waker().clone());
    }

    /// Removes and returns the task that waits for a datagram. The caller wakes it, because no more datagrams
    /// will arrive.
    pub(super) fn end_datagrams(&mut self, id: StreamId) -> Option<Waker> {
        self.take(id, |tasks| &mut tasks.datagrams)
    }

    /// Removes the tasks that wait for the stream, and returns them.
    pub(super) fn forget(&mut self, id: StreamId) -> impl Iterator<Item = Waker> + use<> {
        self.by_stream.remove(&id).into_iter().flat_map(StreamTasks::into_wakers)
    }

    fn take(
        &mut self,
        id: StreamId,
        which: impl FnOnce(&mut StreamTasks) -> &mut Option<Waker>,
    ) -> Option<Waker> {
        which(self.by_stream.get_mut(&id)?).take()
    }

    fn on_event(&mut self, event: Event, woken: &mut Vec<Waker>) {
        match event {
            Event::Settings => self.progress.drain_into(woken),
            Event::Request => self.accepting.drain_into(woken),
            Event::Available => self.requesting.drain_into(woken),
            Event::GoingAway => {
                self.progress.drain_into(woken);
                self.requesting.drain_into(woken);
            }
            Event::Response(id) | Event::Readable(id) => {
                woken.extend(self.take(id, |tasks| &mut tasks.reader));
            }
            Event::Writable(id) | Event::Stopped(id, _) => {
                woken.extend(self.take(id, |tasks| &mut tasks.writer));
            }
            Event::Datagram(id) => woken.extend(self.take(id, |tasks| &mut tasks.datagrams)),
            Event::Failed(id) => woken.extend(self.forget(id)),
            _ => {}
        }
    }

    fn end(&mut self, woken: &mut Vec<Waker>) {
        for set in [&mut self.accepting, &mut self.requesting, &mut self.progress] {
            set.drain_into(woken);
        }
        woken.extend(self.by_stream.drain().flat_map(|(_, tasks)| tasks.into_wakers()));
    }
}

impl StreamTasks {
    fn into_wakers(self) -> impl Iterator<Item = Waker> {
        self.reader.into_iter().chain(self.writer).chain(self.datagrams)
    }
}

impl Http3State {
    /// Sets the time for the session's observer, if it has one.
    fn tell_time(&mut self, now: Time) {
        if self.session.is_observed() {
            self.session.set_time(now);
        }
    }
}

impl session::Session for Http3State {
    fn on_stream_event(&mut self, now: Time, core: &mut Connection, event: StreamEvent) {
        self.tell_time(now);
        self.session.on_event(core.streams(), event);
    }

    fn on_datagrams(&mut self, now: Time, core: &mut Connection) {
        self.tell_time(now);
        let (streams, datagrams) = core.streams_and_datagrams();
        self.session.on_datagrams(streams, datagrams);
    }

    fn wake(
        &mut self,
        now: Time,
        core: &mut Connection,
        woken: &mut Vec<Waker>,
    ) -> Result<(), ConnectionError> {
        while let Some(event) = self.session.poll_event() {
            self.tasks.on_event(event, woken);
        }
        let Some(fault) = self.session.take_fault() else { return Ok(()) };
        core.close(now, fault.code.into(), Bytes::copy_from_slice(fault.reason.as_bytes()));
        self.fault.get_or_insert(fault);
        Err(ConnectionError::LocallyClosed)
    }

    fn end(&mut self, woken: &mut Vec<Waker>) {
        self.tasks.end(woken);
    }

    fn close_code(&self) -> VarInt {
        Code::NO_ERROR.into()
    }
}

impl State {
    /// Returns the session and the state that it needs. Begins a session if there is none.
    pub(super) fn http3(&mut self, now: Time, config: impl FnOnce() -> h3::Config) -> Access<'_> {
        let Self { core, session, ended, connected, trace, .. } = self;
        let begun = session.get_or_insert_with(|| {
            let mut session = Session::new(core.side(), config());
            if let Some(trace) = trace {
                session.set_observer(Box::new(trace.clone()));
                session.set_time(now);
            }
            session.start(core.streams());
            Box::new(Http3State { session, tasks: Tasks::default(), fault: None })
        });
        let state: &mut dyn Any = &mut **begun;
        let Some(state) = state.downcast_mut::<Http3State>() else {
            unreachable!("there is no other protocol")
        };
        state.tell_time(now);
        let Http3State { session, tasks, fault } = state;
        let connected = connected.is_some();
        Access { session, core, tasks, now, connected, fault: fault.as_ref(), ended: ended.as_ref() }
    }
}

impl ConnectionInner {
    /// Calls `act` with the connection's session. The second value that `act` returns says whether there may
    /// be packets to send.
    pub(super) fn http3<R>(&self, act: impl FnOnce(&mut Access<'_>) -> (R, bool)) -> R {
        let mut woken = Vec::new();
        let (result, sends) = self.with_state(|state| {
            let now = self.driver.now();
            let (result, sends) = act(&mut state.http3(now, h3::Config::default));
            let closed = state.wake_session(now, &mut woken);
            (result, sends || closed)
        });
        if sends {
            self.mark_dirty();
        }
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Changes the connection's session, and notifies the driver, which sends the resulting packets.
    pub(super) fn change_http3<R>(&self, act: impl FnOnce(&mut Access<'_>) -> R) -> R {
        self.http3(|access| (act(access), true))
    }
}
