//! The task that moves datagrams between the sockets and the connections of one endpoint.
//!
//! Each turn takes the connections that the application has changed, receives datagrams, expires timers, and
//! then processes every connection that these steps affected: it sends the connection's packets, handles its
//! events, forwards its events for the router, and sets its next deadline. A turn takes long if many
//! connections have much to send. The clock is therefore read again for each connection, and after `SENDING`
//! the remaining connections wait for the next turn. A connection that has only a keep-alive to acknowledge does so as soon
//! as it has received it. If the events of a connection with a session wake tasks, other
//! tasks run before it sends, so that messages of the woken ones and acknowledgments leave together.

mod receive;
mod send;
mod sleeper;
mod timers;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_transport::{ConnectionError, EndpointEvent, Handle, TransportError};
use anabranch_wire::{Time, TransportErrorCode};
use tracing::{error, info};

use self::send::{Sender, Turn};
use self::sleeper::Sleeper;
use self::timers::Timers;
use crate::connection_inner::{ConnectionInner, State};
use crate::endpoint_inner::{EndpointInner, Wanted};
use crate::hand_over::Neighbours;
use crate::log::ENDPOINT;
#[cfg(feature = "interfaces")]
use crate::paths::follow;
use crate::refusals;
use crate::runtime::{Instant, Sleep, sleep_until, spawn};
use crate::socket::{ReceiveBatch, Socket};
use crate::wakers::WakerSet;

/// Maximum number of turns before the driver lets other tasks run.
const TURNS: usize = 16;
/// Time that a turn may spend sending before it receives again. While acknowledgments wait to be read,
/// measured round-trip times are too long.
const SENDING: Duration = Duration::from_millis(1);
/// Minimum time between two checks of a connection's deadlines while the sockets of all its paths are full.
/// Such a connection cannot send, but its idle timeout may expire.
const BLOCKED_INTERVAL: Duration = Duration::from_millis(10);
/// Minimum time between two checks of a connection's deadlines while the sockets of only some of its paths
/// are full: its other paths may have to send on time.
const PARTLY_BLOCKED_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of connections that put off sending in one turn. Their acknowledgments wait until the woken
/// tasks have run: if each takes 100 microseconds of the driver's thread, no longer than half of the default
/// `max_ack_delay` (RFC 9000 §18.2).
const MAX_PUT_OFF: usize = 128;

/// Time at which the next turn begins. Of two reasons, the greater one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// After an event or a deadline.
    Later,
    /// At once.
    Now,
    /// After other tasks have run.
    AfterOthers,
}

/// Task that drives one endpoint until its last handle and its last connection are gone.
pub(crate) struct Driver {
    endpoint: Arc<EndpointInner>,
    sockets: Vec<Arc<Socket>>,
    sockets_version: u64,
    received: ReceiveBatch,
    sender: Sender,
    timers: Timers,
    sleep: Pin<Box<Sleep>>,
    /// Connections to be processed, in order.
    queue: VecDeque<Arc<ConnectionInner>>,
    dirty: Vec<Handle>,
    woken: Vec<Waker>,
    /// Processes with the same sockets.
    neighbours: Neighbours,
    /// Detector of times during which the driver did not run although it should have.
    sleeper: Sleeper,
}

impl Driver {
    pub(crate) fn new(endpoint: Arc<EndpointInner>) -> Self {
        let (sockets, sockets_version) = {
            let sockets = endpoint.driver.sockets();
            (sockets.all().to_vec(), sockets.version())
        };
        Self {
            endpoint,
            sender: Sender::new(&sockets),
            sockets,
            sockets_version,
            received: ReceiveBatch::new(),
            timers: Timers::default(),
            sleep: Box::pin(sleep_until(Instant::now())),
            queue: VecDeque::new(),
            dirty: Vec::new(),
            woken: Vec::new(),
            neighbours: Neighbours::default(),
            sleeper: Sleeper::default(),
        }
    }

    /// Runs one turn, and returns when the next one must follow.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<Next> {
        let now = self.endpoint.driver.now();
        self.take_dirty(cx);
        self.neighbours.take(&self.endpoint.driver.links);
        let asleep = self.sleeper.on_turn(now, self.endpoint.driver.clock.drift(), self.timers.next());
        let received = if self.receive(cx, now)? { Next::Now } else { Next::Later };
        if let Some(asleep) = asleep {
            self.awake(now, asleep);
        }
        self.expire(now);
        let next = self.drain(cx);
        // Connections may have released sockets. They stay in the driver's list until here, because the receiving part of a turn
        // goes through it while connections take turns.
        self.take_sockets();
        self.release_leaving();
        Ok(next.max(received))
    }

    /// Notifies the tasks of `wait_close_sent` once every connection has sent its CONNECTION_CLOSE and no
    /// full socket holds one back.
    fn release_leaving(&self) {
        let (leaving, connections): (_, Vec<_>) = {
            let mut table = self.endpoint.table();
            if table.leaving.is_empty() {
                return;
            }
            // A task that begins to wait from now on may have closed a connection that is not among these.
            (std::mem::take(&mut table.leaving), table.connections().cloned().collect())
        };
        let sent = |connection: &Arc<ConnectionInner>| {
            connection.with_state(|state| state.core.is_closed() && !state.core.owes_close())
        };
        if self.sender.holds_nothing() && connections.iter().all(sent) {
            // A task that no longer waits need not be notified.
            leaving.into_iter().for_each(|leaving| _ = leaving.send(()));
        } else {
            self.endpoint.table().leaving.extend(leaving);
        }
    }

    fn take_dirty(&mut self, cx: &Context<'_>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.endpoint.driver.take_dirty(&mut dirty, cx.waker());
        // A connection adds its socket before it requests a task that listens on it.
        let wanted = self.endpoint.table().take_wanted();
        self.take_sockets();
        self.begin(wanted);
        let table = self.endpoint.table();
        let connections: Vec<_> =
            dirty.drain(..).filter_map(|handle| table.connection(handle).cloned()).collect();
        drop(table);
        self.dirty = dirty;
        for connection in connections {
            connection.clear_dirty();
            self.enqueue(connection);
        }
    }

    /// Applies changes of the endpoint's sockets.
    fn take_sockets(&mut self) {
        let sockets = self.endpoint.driver.sockets();
        if sockets.version() != self.sockets_version {
            self.sockets_version = sockets.version();
            self.sockets.clear();
            self.sockets.extend_from_slice(sockets.all());
            self.sender.set_sockets(&self.sockets);
        }
    }

    /// Starts the background tasks that were requested.
    fn begin(&self, wanted: Wanted) {
        #[cfg(feature = "interfaces")]
        if wanted.follower {
            spawn(follow(Arc::downgrade(&self.endpoint), Arc::clone(&self.endpoint.driver.follower)));
        }
        let unheard = self.sockets.iter().filter(|socket| wanted.listener && !socket.set_listened_to(true));
        for socket in unheard {
            // Reports are enabled before anything is sent, because the system discards ICMP messages that
            // arrive earlier.
            socket.report_errors(true);
            spawn(refusals::listen(Arc::downgrade(&self.endpoint), Arc::clone(socket)));
        }
    }

    /// Handles the end of a suspension of this host or process. Connections of clients check whether their
    /// servers still respond.
    fn awake(&mut self, now: Time, asleep: Duration) {
        info!(target: ENDPOINT, ?asleep, "this end was asleep");
        let connections: Vec<_> = self.endpoint.table().connections().cloned().collect();
        for connection in connections {
            if connection.with_state(|state| state.core.side().is_client()) {
                connection.with_state(|state| state.core.on_awake(now, asleep));
                self.enqueue(connection);
            }
        }
    }

    fn enqueue(&mut self, connection: Arc<ConnectionInner>) {
        if !connection.set_queued(true) {
            self.queue.push_back(connection);
        }
    }

    fn expire(&mut self, now: Time) {
        while let Some(handle) = self.timers.pop(now) {
            let Some(connection) = self.endpoint.table().connection(handle).cloned() else { continue };
            let next = connection.with_state(|state| {
                let is_due = state.core.poll_timeout().is_some_and(|deadline| deadline <= now);
                if is_due {
                    state.core.handle_timeout(now);
                }
                state.core.rest(now);
                // A connection that only rests has nothing to send and no event.
                (!is_due).then(|| next_deadline(state))
            });
            match next {
                Some(deadline) => self.timers.arm(handle, deadline),
                None => self.enqueue(connection),
            }
        }
    }

    /// Processes the connections in the queue: handles their events, sends their packets, and sets their
    /// deadlines. For fairness, a connection with much to send continues in the next turn. Up to [`MAX_PUT_OFF`]
    /// connections whose sessions wake tasks send in the next turn. Returns when that must follow.
    fn drain(&mut self, cx: &mut Context<'_>) -> Next {
        let mut next = Next::Later;
        let mut put_off = 0;
        let until = self.endpoint.driver.now() + SENDING;
        for _ in 0..self.queue.len() {
            let now = self.endpoint.driver.now();
            if now > until && !self.sender.is_blocked() {
                next = next.max(Next::Now);
                break;
            }
            let Some(connection) = self.queue.pop_front() else { break };
            // The events are handled before sending, so that the messages of a session leave together with the
            // packets that are sent now.
            let is_closed = connection.with_state(|state| {
                if state.session.is_some() {
                    state.take_events(&connection.driver, now, &mut self.woken);
                }
                state.core.is_closed()
            });
            // A close leaves at once: the tasks that learn of it may end this process.
            let waits = !self.woken.is_empty() && !is_closed && put_off < MAX_PUT_OFF;
            if waits && !connection.set_put_off(true) {
                put_off += 1;
                self.woken.drain(..).for_each(Waker::wake);
                self.queue.push_back(connection);
                next = Next::AfterOthers;
                continue;
            }
            connection.set_put_off(false);
            connection.set_queued(false);
            self.sender.flush(cx);
            if self.take_turn(&connection, now) == Turn::More {
                next = next.max(Next::Now);
            }
        }
        // A socket may have become full in this turn. Flushing once more registers this task with it, so that
        // the task is woken when the socket has room.
        if self.sender.flush(cx) && !self.queue.is_empty() { next.max(Next::Now) } else { next }
    }

    /// Sends the packets of a connection, and finishes its turn. If it has more to send, or if a socket is full, the connection is
    /// queued for another turn.
    fn take_turn(&mut self, connection: &Arc<ConnectionInner>, now: Time) -> Turn {
        let turn = self.sender.send_from(connection, now);
        if turn != Turn::Done {
            self.enqueue(Arc::clone(connection));
        }
        let patience = match turn {
            Turn::Done | Turn::More => Duration::ZERO,
            Turn::PartlyBlocked => PARTLY_BLOCKED_INTERVAL,
            Turn::Blocked => BLOCKED_INTERVAL,
        };
        self.finish_turn(connection, now, patience);
        turn
    }

    /// Handles a connection's events, forwards its events for the router, and sets its next deadline, which is
    /// not before `patience` has passed.
    fn finish_turn(&mut self, connection: &Arc<ConnectionInner>, now: Time, patience: Duration) {
        let mut news = Vec::new();
        let woken = &mut self.woken;
        let (answered, released, deadline) = connection.with_state(|state| {
            let answered = state.take_events(&connection.driver, now, woken);
            news.extend(std::iter::from_fn(|| state.core.poll_endpoint_event()));
            state.core.rest(now);
            (answered, state.release_leases(news.contains(&EndpointEvent::Drained)), next_deadline(state))
        });
        if released {
            self.endpoint.driver.sockets().drop_unleased();
        }
        if answered {
            connection.mark_dirty();
        }
        self.woken.drain(..).for_each(Waker::wake);
        self.timers.arm(connection.handle, deadline.map(|deadline| deadline.max(now + patience)));
        if !news.is_empty() {
            self.forward(connection.handle, &news);
        }
    }

    fn forward(&mut self, handle: Handle, news: &[EndpointEvent]) {
        let mut idling = WakerSet::default();
        let mut table = self.endpoint.table();
        for event in news {
            table.router.on_event(handle, event);
            if *event == EndpointEvent::Drained {
                idling = table.remove(handle);
                self.timers.disarm(handle);
            }
        }
        drop(table);
        idling.wake();
    }

    /// Returns ready once the earliest deadline has passed.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.timers.next() else { return Poll::Pending };
        let deadline = self.endpoint.driver.clock.instant(deadline);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }

    /// Ends all connections because the endpoint's socket has failed or the driver is dropped.
    fn fail(&self, error: &ConnectionError) {
        let (connections, mut woken, leaving) = {
            let mut table = self.endpoint.table();
            (table.closed, table.is_driven) = (true, false);
            for incoming in std::mem::take(&mut table.incoming) {
                table.router.ignore(incoming);
            }
            let mut woken = Vec::new();
            table.accepting.drain_into(&mut woken);
            table.idling.drain_into(&mut woken);
            let leaving = std::mem::take(&mut table.leaving);
            (table.connections().cloned().collect::<Vec<_>>(), woken, leaving)
        };
        drop(leaving);
        self.endpoint.driver.close_mailbox();
        for connection in connections {
            connection.with_state(|state| state.end(error.clone(), &mut woken));
            let idling = self.endpoint.table().remove(connection.handle);
            idling.wake();
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Returns the time at which the connection must be handled again: its next timeout, or the time to rest.
fn next_deadline(state: &State) -> Option<Time> {
    state.core.poll_timeout().into_iter().chain(state.core.rest_at()).min()
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..TURNS {
            let next = match this.turn(cx) {
                Ok(next) => next,
                Err(error) => {
                    error!(target: ENDPOINT, %error, "the socket failed");
                    let reason = format!("the socket failed: {error}");
                    let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, reason);
                    this.fail(&ConnectionError::Transport(error));
                    return Poll::Ready(());
                }
            };
            if this.endpoint.table().is_done() && !this.neighbours.are_between() {
                return Poll::Ready(());
            }
            match next {
                Next::AfterOthers => break,
                Next::Now => {}
                Next::Later if this.poll_sleep(cx).is_pending() => return Poll::Pending,
                Next::Later => {}
            }
        }
        // There is more to do, but other tasks run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    /// Ends all connections when the runtime shuts down. Nothing more will be received, and tasks would wait
    /// forever.
    fn drop(&mut self) {
        self.fail(&ConnectionError::LocallyClosed);
    }
}
