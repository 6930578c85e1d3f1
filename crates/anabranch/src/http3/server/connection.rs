//! Passes the requests of one connection to the service, and sends the responses.
//!
//! Requests are accepted in batches. The future that the service returns is first polled in place: most
//! futures are ready then, and their responses are sent together, under one lock. A future that must wait
//! moves to a separate task.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_http3::{Code, WriteError};
use anabranch_wire::StreamId;
use bytes::Bytes;
use http::header::EXPECT;
use http::response::Parts;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tower_service::Service;

use super::super::body::content_length;
use super::super::connection::{Accepted, ConnectionInfo};
use super::super::exchange::Exchange;
use super::super::half::Half;
use super::super::pace::Pace;
use super::super::stall::Stall;
use super::super::state::Access;
use super::super::{Body, Connection, Datagrams, Error, RecvHalf, SendHalf};
use super::answer::{Answer, AtOnce, Begun, Kind};
use super::date::{self, DateCache};
use super::lifetime::Lifetime;
use super::sending::Sending;
use super::{ServeOptions, Shutdown};

/// Maximum number of requests in a batch: enough to share the cost of a turn, few enough not to delay
/// responses.
const MAX_BATCH: usize = 32;

/// Maximum number of batches that are processed before other tasks have their turn.
const MAX_BATCHES_IN_A_ROW: u32 = 8;

/// A connection that is being served.
pub(super) struct Serving<S, B>
where
    S: Service<Request<Body>>,
{
    connection: Connection,
    service: S,
    options: ServeOptions,
    lifetime: Lifetime,
    /// Permits, one for each request that a separate task processes.
    handlers: Arc<Semaphore>,
    /// Future that is ready when a permit is available; `None` while this task does not wait for one.
    freed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Requests in early data whose methods are not safe; they wait until the handshake is complete.
    held: VecDeque<(Accepted, ConnectionInfo)>,
    /// Future that resolves to `true` if the handshake has succeeded; `None` if no request waits for it.
    established: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    batch: Vec<Accepted>,
    answered: Vec<Answered>,
    /// Memory for the next service future.
    spare: Option<Pinned<S::Future, B>>,
    date: DateCache,
}

/// A pinned response, which stays in place until it is sent.
type Pinned<F, B> = Pin<Box<Answer<F, B>>>;

/// A response that is ready to be sent.
struct Answered {
    id: StreamId,
    /// `None` if the request has no body; the request then holds no reference to the stream.
    exchange: Option<Arc<Exchange>>,
    /// `None` if the service failed.
    response: Option<(Parts, Bytes)>,
}

/// Next event of a served connection.
enum Next {
    Requests(ConnectionInfo),
    /// The handshake has ended. If it succeeded, the held requests may be processed.
    Held(bool),
    Nothing(Result<(), Error>),
}

impl<S, B> Serving<S, B>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<crate::Error>,
{
    pub(super) fn new(
        connection: Connection,
        service: S,
        options: ServeOptions,
        shutdown: &Shutdown,
    ) -> Self {
        let max_handlers = options.limits.max_handlers.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            connection,
            service,
            lifetime: Lifetime::new(&options.limits, shutdown),
            options,
            handlers: Arc::new(Semaphore::new(max_handlers)),
            freed: None,
            held: VecDeque::new(),
            established: None,
            batch: Vec::new(),
            answered: Vec::new(),
            spare: None,
            date: DateCache::default(),
        }
    }

    pub(super) async fn run(mut self) -> Result<(), Error> {
        let mut in_a_row = 0;
        loop {
            match poll_fn(|cx| self.poll_next(cx)).await {
                Next::Requests(info) => self.answer_batch(info).await?,
                Next::Held(true) => self.answer_held().await?,
                // The handshake failed, so the requests may have been replays. The next call to accept
                // reports the lost connection.
                Next::Held(false) => self.held.clear(),
                Next::Nothing(result) => return result,
            }
            in_a_row += 1;
            if in_a_row == MAX_BATCHES_IN_A_ROW {
                in_a_row = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let busy = self.handlers.available_permits() < self.max_handlers() || !self.held.is_empty();
        if self.poll_lifetime(cx, busy).is_ready() {
            return Poll::Ready(Next::Nothing(Ok(())));
        }
        if let Some(Poll::Ready(success)) =
            self.established.as_mut().map(|established| established.as_mut().poll(cx))
        {
            self.established = None;
            return Poll::Ready(Next::Held(success));
        }
        let room = self.poll_room(cx);
        if room == 0 {
            return Poll::Pending;
        }
        self.connection.poll_accept(cx, room, &mut self.batch).map(|accepted| match accepted {
            Ok(info) => Next::Requests(info),
            Err(error) if error.is_farewell() => Next::Nothing(Ok(())),
            Err(error) => Next::Nothing(Err(error)),
        })
    }

    /// Closes the connection when its lifetime has ended.
    fn poll_lifetime(&mut self, cx: &mut Context<'_>, busy: bool) -> Poll<()> {
        let over = self.lifetime.poll(cx, &self.connection, busy);
        over.map(|()| self.connection.close())
    }

    /// Returns the number of requests that may be accepted now.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> usize {
        loop {
            let room = self.handlers.available_permits().saturating_sub(self.held.len());
            if room > 0 || !self.held.is_empty() {
                return room.min(MAX_BATCH);
            }
            let freed = self.freed.get_or_insert_with(|| {
                let handlers = Arc::clone(&self.handlers);
                Box::pin(async move { drop(handlers.acquire().await) })
            });
            if freed.as_mut().poll(cx).is_pending() {
                return 0;
            }
            self.freed = None;
        }
    }

    fn max_handlers(&self) -> usize {
        self.options.limits.max_handlers.clamp(1, Semaphore::MAX_PERMITS)
    }

    async fn answer_batch(&mut self, info: ConnectionInfo) -> Result<(), Error> {
        self.lifetime.on_request();
        self.date.refresh();
        let mut batch = std::mem::take(&mut self.batch);
        for accepted in batch.drain(..) {
            if info.early_data && !accepted.parts.method.is_safe() {
                self.hold(accepted, info);
            } else {
                self.answer(accepted, info).await?;
            }
        }
        self.batch = batch;
        self.flush();
        Ok(())
    }

    /// Holds an early request until the handshake is complete: requests that an attacker may replay must not
    /// change anything (RFC 8470 §3).
    fn hold(&mut self, accepted: Accepted, info: ConnectionInfo) {
        self.held.push_back((accepted, ConnectionInfo { early_data: false, ..info }));
        self.established.get_or_insert_with(|| {
            let connection = self.connection.clone();
            Box::pin(async move { connection.established().await.is_ok() })
        });
    }

    async fn answer_held(&mut self) -> Result<(), Error> {
        while let Some((accepted, info)) = self.held.pop_front() {
            self.answer(accepted, info).await?;
        }
        self.flush();
        Ok(())
    }

    /// Passes a request to the service as soon as the service is ready.
    async fn answer(&mut self, accepted: Accepted, info: ConnectionInfo) -> Result<(), Error> {
        poll_fn(|cx| self.poll_service(cx)).await?;
        let mut accepted = Some(accepted);
        poll_fn(|cx| {
            if let Some(accepted) = accepted.take() {
                self.begin(cx, accepted, info);
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Returns ready when the service accepts a request, or with an error when the service has failed or the
    /// connection has ended.
    fn poll_service(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.service.poll_ready(cx) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) => {
                self.connection.close_with(Code::INTERNAL_ERROR, "the service has failed");
                return Poll::Ready(Err(Error::Closed));
            }
            Poll::Pending => {}
        }
        // Responses that are ready need not wait for the service.
        self.flush();
        if self.poll_lifetime(cx, true).is_ready() {
            return Poll::Ready(Err(Error::Closed));
        }
        self.connection.poll_closed(cx).map(Err)
    }

    /// Calls the service, and takes its response if it is available at once.
    fn begin(&mut self, cx: &mut Context<'_>, accepted: Accepted, info: ConnectionInfo) {
        let Accepted { id, parts, ended } = accepted;
        let kind = Kind::of(&parts.method);
        // A tunnel may have to be reset although its client has already ended its own direction.
        let refers = !ended || kind == Kind::Connect;
        let exchange = refers.then(|| Arc::new(Exchange::new(self.connection.quic().0.clone(), id)));
        let request = self.request(parts, exchange.as_ref(), kind, info);
        let mut answer = self.spare.take().unwrap_or_else(|| Box::pin(Answer::Idle));
        let service = &mut self.service;
        // A panic ends this request only, not the others of the connection.
        let at_once = catch_unwind(AssertUnwindSafe(|| {
            answer.set(Answer::Called { future: service.call(request), kind });
            let at_once = answer.as_mut().poll_at_once(cx);
            if !matches!(at_once, AtOnce::Later(..)) {
                answer.set(Answer::Idle);
            }
            at_once
        }));
        let response = match at_once {
            Ok(AtOnce::Whole(mut parts, body)) => {
                self.spare = Some(answer);
                if self.options.date {
                    date::add(&mut parts, || self.date.get());
                }
                Some((parts, body))
            }
            Ok(AtOnce::Later(begun)) => {
                let exchange =
                    exchange.unwrap_or_else(|| Arc::new(Exchange::new(self.connection.quic().0.clone(), id)));
                return self.spawn(answer, begun, kind, exchange);
            }
            Ok(AtOnce::Failed) | Err(_) => None,
        };
        self.answered.push(Answered { id, exchange, response });
    }

    fn request(
        &self,
        parts: http::request::Parts,
        exchange: Option<&Arc<Exchange>>,
        kind: Kind,
        info: ConnectionInfo,
    ) -> Request<Body> {
        let body = match exchange {
            None => Body::empty(),
            Some(exchange) => {
                let left = if kind == Kind::Connect { None } else { content_length(&parts.headers) };
                let expects_continue = parts
                    .headers
                    .get(EXPECT)
                    .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
                let half = RecvHalf::new(Half::server(Arc::clone(exchange)));
                Body::request(half, left, self.pace(kind), expects_continue)
            }
        };
        let mut request = Request::from_parts(parts, body);
        request.extensions_mut().insert(info);
        if let Some(exchange) = exchange.filter(|_| kind == Kind::Connect) {
            request.extensions_mut().insert(Datagrams::new(Arc::clone(exchange)));
        }
        request
    }

    fn pace(&self, kind: Kind) -> Option<Pace> {
        if kind == Kind::Connect { None } else { Pace::new(&self.options.limits) }
    }

    /// Starts a task that completes a response that is not available at once.
    fn spawn(
        &self,
        answer: Pinned<S::Future, B>,
        mut begun: Option<Box<Begun>>,
        kind: Kind,
        exchange: Arc<Exchange>,
    ) {
        let date = self.options.date;
        let stall = (kind != Kind::Connect).then(|| Stall::new(&self.options.limits, &self.options.stalled));
        if let Some(begun) = begun.as_mut().filter(|_| date) {
            date::add(&mut begun.head.parts, || self.date.get());
        }
        // A permit is available: at most as many requests are accepted as there are permits, and only tasks
        // of these requests hold permits.
        let permit = Arc::clone(&self.handlers).try_acquire_owned().ok();
        let send = SendHalf::new(Half::server(exchange));
        tokio::spawn(Sending::new(answer, begun, send, stall, date, permit));
    }

    /// Sends the responses that are ready.
    fn flush(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let answered = std::mem::take(&mut self.answered);
        self.connection.quic().0.change_http3(|access| {
            for answer in &answered {
                answer.send(access);
            }
        });
        // The responses are dropped after the lock is released, because a service may put a handle of this
        // connection into a response.
        self.answered = answered;
        self.answered.clear();
    }
}

impl Answered {
    fn send(&self, access: &mut Access<'_>) {
        let (session, streams) = (&mut *access.session, access.core.streams());
        let sent = self.response.as_ref().is_some_and(|(parts, body)| {
            let sent = session.respond_whole(streams, self.id, parts, body);
            // If the client has stopped the stream or is gone, the response does not count as failed.
            !matches!(sent, Err(WriteError::Invalid(_)))
        });
        if !sent {
            session.reset(streams, self.id, Code::INTERNAL_ERROR);
        }
        if self.exchange.is_none() {
            session.release(streams, self.id);
        }
    }
}
