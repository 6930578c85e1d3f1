//! Receives datagrams from the sockets, and passes them to the connections.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_transport::{Datagram, Response, RouterAction, StoredDatagram};
use anabranch_wire::Time;
use smallvec::SmallVec;
use tracing::{debug, trace};

use super::Driver;
use crate::connection_inner::ConnectionInner;
use crate::endpoint_inner::Table;
use crate::hand_over::{Course, Origin};
use crate::log::ENDPOINT;
use crate::wakers::WakerSet;

/// Maximum number of receive calls per turn and socket: enough to empty a busy socket's buffer, few enough
/// not to delay acknowledgments.
const RECEIVES: usize = 4;
/// Number of datagrams of one receive call that are listed without an allocation.
const USUAL_BATCH: usize = 16;

/// Action that one datagram requires.
enum Step {
    Deliver(Arc<ConnectionInner>),
    Reset(Arc<ConnectionInner>),
    Respond(Response),
    /// The worker with this number needs the datagram.
    HandOver(usize),
    /// Another process with the same sockets may know the datagram.
    Pass(Course),
    Nothing,
}

impl Driver {
    /// Receives as many datagrams as a turn allows. Returns whether more may be waiting.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, now: Time) -> io::Result<bool> {
        let mut more = false;
        let mut handed_over = self.endpoint.driver.take_handed_over();
        if !handed_over.is_empty() {
            let mut datagrams: Vec<_> = handed_over.iter_mut().map(StoredDatagram::as_datagram).collect();
            self.deliver(now, &mut datagrams, Origin::Network);
        }
        for origin in [Origin::Successor, Origin::Predecessor] {
            let (mut passed, left) = self.neighbours.receive(cx, origin);
            more |= left;
            if !passed.is_empty() {
                let mut datagrams: Vec<_> = passed.iter_mut().map(StoredDatagram::as_datagram).collect();
                self.deliver(now, &mut datagrams, origin);
            }
        }
        for i in 0..self.sockets.len() {
            let socket = Arc::clone(&self.sockets[i]);
            if !self.neighbours.receives(&socket) {
                continue;
            }
            for round in 1..=RECEIVES {
                match socket.poll_receive(cx, &mut self.received) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) if i == 0 => return Err(error),
                    // If a socket other than the endpoint's own fails, only the paths on that socket receive
                    // nothing more.
                    Poll::Ready(Err(_)) | Poll::Pending => break,
                }
                // The batch is moved out of `self`, because the datagrams borrow it while other parts of the driver
                // are in use.
                let mut received = std::mem::take(&mut self.received);
                let mut datagrams: SmallVec<[_; USUAL_BATCH]> = received.datagrams().collect();
                self.deliver(now, &mut datagrams, Origin::Network);
                drop(datagrams);
                self.received = received;
                more |= round == RECEIVES;
            }
        }
        Ok(more)
    }

    /// Passes datagrams to the connections. Consecutive datagrams of one connection are handled together,
    /// under one lock.
    fn deliver(&mut self, now: Time, mut datagrams: &mut [Datagram<'_>], origin: Origin) {
        let endpoint = Arc::clone(&self.endpoint);
        let mut ahead = None;
        while !datagrams.is_empty() {
            let (run, accepting) = {
                let mut table = endpoint.table();
                let course = |datagram: &Datagram<'_>| self.neighbours.course(origin, datagram);
                let run =
                    Run::begin(ahead, datagrams, |datagram| table.step(now, datagram, course(datagram)));
                let comes = !table.incoming.is_empty();
                (run, if comes { table.accepting.take() } else { WakerSet::default() })
            };
            accepting.wake();
            let (of_run, rest) = datagrams.split_at_mut(run.len);
            match run.step {
                Step::Deliver(connection) => self.deliver_run(now, connection, of_run),
                Step::Reset(connection) => {
                    connection.with_state(|state| state.core.handle_reset(now));
                    self.enqueue(connection);
                }
                Step::Respond(response) => endpoint.respond(Some(response)),
                Step::HandOver(owner) => endpoint.driver.hand_over(owner, &of_run[0]),
                Step::Pass(course) => self.neighbours.pass(course, &of_run[0]),
                Step::Nothing => {}
            }
            (datagrams, ahead) = (rest, run.ahead);
        }
    }

    /// Passes datagrams to their connection. If it then has only a keep-alive to acknowledge, it does so and rests at once: of many
    /// such connections in one batch, only one at a time needs memory for its keys. A connection that is queued has more to do.
    fn deliver_run(&mut self, now: Time, connection: Arc<ConnectionInner>, run: &mut [Datagram<'_>]) {
        let rests = connection.with_state(|state| {
            state.core.handle_batch(now, run);
            state.core.rests_once_acknowledged()
        });
        if rests && !connection.is_queued() {
            let now = self.endpoint.driver.now();
            self.take_turn(&connection, now);
        } else {
            self.enqueue(connection);
        }
    }
}

/// Consecutive datagrams that one connection receives, or one datagram that requires another action.
struct Run {
    step: Step,
    len: usize,
    /// Action for the first datagram behind the run, if it is known.
    ahead: Option<Step>,
}

impl Run {
    /// Returns the run at the start of `datagrams`, which must not be empty. `ahead` is the action for the first of them, if it is
    /// known; `step` determines the action for one datagram.
    fn begin(
        ahead: Option<Step>,
        datagrams: &[Datagram<'_>],
        mut step: impl FnMut(&Datagram<'_>) -> Step,
    ) -> Self {
        let mut run = Self { step: ahead.unwrap_or_else(|| step(&datagrams[0])), len: 1, ahead: None };
        if let Step::Deliver(connection) = &run.step {
            for datagram in &datagrams[1..] {
                let next = step(datagram);
                if !next.is_for(connection) {
                    run.ahead = Some(next);
                    break;
                }
                run.len += 1;
            }
        }
        run
    }
}

impl Step {
    fn is_for(&self, connection: &Arc<ConnectionInner>) -> bool {
        matches!(self, Self::Deliver(other) if Arc::ptr_eq(other, connection))
    }
}

impl Table {
    fn step(&mut self, now: Time, datagram: &Datagram<'_>, course: Course) -> Step {
        let route = match course {
            Course::Here => self.router.route(now, datagram),
            Course::Back | Course::Forth => match self.router.route_known(datagram) {
                Some(route) => route,
                None => return Step::Pass(course),
            },
        };
        match route {
            RouterAction::Connection(handle) => {
                self.connection(handle).cloned().map_or(Step::Nothing, Step::Deliver)
            }
            RouterAction::Reset(handle) => {
                self.connection(handle).cloned().map_or(Step::Nothing, Step::Reset)
            }
            RouterAction::Respond(response) => Step::Respond(response),
            RouterAction::Elsewhere(owner) => Step::HandOver(owner),
            RouterAction::Incoming(incoming) if self.closed || self.handles == 0 => {
                self.router.refuse(now, incoming).map_or(Step::Nothing, Step::Respond)
            }
            RouterAction::Incoming(incoming) => {
                debug!(target: ENDPOINT, peer = %incoming.remote_address(), "a client comes");
                self.incoming.push_back(incoming);
                Step::Nothing
            }
            RouterAction::Drop(why) => {
                trace!(target: ENDPOINT, peer = %datagram.tuple.remote, ?why, "a datagram is dropped");
                Step::Nothing
            }
            RouterAction::Buffered => Step::Nothing,
        }
    }
}
