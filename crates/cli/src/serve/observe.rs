//! Observation of each request for the access log and the metrics: a service that wraps another one.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Buf, Bytes};
use http::header::{HeaderName, REFERER, USER_AGENT};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower_service::Service;

use super::activity::Activity;
use super::log::{Entry, clip};
use super::protocol::Protocol;
use super::shared::Shared;
use crate::files::Files;

/// Maximum length of a response that HTTP/3 may take in one piece, without polling for the end of the body.
const SMALL: u64 = 4 * 1024;

/// Service whose responses are observed until their end.
#[derive(Clone, Debug)]
pub(super) struct Observed<S> {
    service: S,
    shared: Arc<Shared>,
    protocol: Protocol,
    peer: SocketAddr,
    activity: Arc<Activity>,
}

impl Shared {
    /// Creates the service that handles the requests of one connection.
    pub(super) fn service(
        self: &Arc<Self>,
        protocol: Protocol,
        peer: SocketAddr,
        activity: Arc<Activity>,
    ) -> Observed<Files> {
        Observed::new(self.files.clone(), Arc::clone(self), protocol, peer, activity)
    }
}

impl<S> Observed<S> {
    pub(super) fn new(
        service: S,
        shared: Arc<Shared>,
        protocol: Protocol,
        peer: SocketAddr,
        activity: Arc<Activity>,
    ) -> Self {
        Self { service, shared, protocol, peer, activity }
    }

    fn observe<B>(&self, request: &Request<B>) -> Observation {
        let field = |name: HeaderName| {
            request.headers().get(name).map(|value| clip(&String::from_utf8_lossy(value.as_bytes())))
        };
        self.activity.step(1);
        self.activity.begin();
        let target = request.uri().path_and_query().map_or("*", |target| target.as_str());
        let entry = Entry {
            time: SystemTime::now(),
            peer: self.peer,
            protocol: self.protocol.name(),
            method: clip(request.method().as_str()),
            target: clip(target),
            status: None,
            bytes: 0,
            duration: Duration::ZERO,
            complete: false,
            referer: field(REFERER),
            agent: field(USER_AGENT),
        };
        let (shared, activity) = (Arc::clone(&self.shared), Arc::clone(&self.activity));
        Observation { entry: Some(entry), begin: Instant::now(), shared, activity, protocol: self.protocol }
    }
}

impl<S, B, C> Service<Request<B>> for Observed<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
    C: Body,
{
    type Response = Response<ObservedBody<C>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut observation = self.observe(&request);
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(entry) = &mut observation.entry {
                entry.status = Some(answer.status().as_u16());
                // A body without content is never polled.
                entry.complete = answer.body().is_end_stream();
            }
            Ok(answer.map(|body| ObservedBody { body, observation }))
        })
    }
}

/// Observation of one request; it ends when the response is dropped, sent or aborted.
#[derive(Debug)]
struct Observation {
    /// Entry for the log; taken at the end.
    entry: Option<Entry>,
    begin: Instant,
    protocol: Protocol,
    shared: Arc<Shared>,
    activity: Arc<Activity>,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.activity.end();
        let Some(mut entry) = self.entry.take() else { return };
        entry.duration = self.begin.elapsed();
        self.shared.metrics.request(self.protocol, &entry);
        self.shared.log.write(entry);
    }
}

/// Content of a response. Counts bytes as they are handed over to be sent.
#[derive(Debug)]
pub(super) struct ObservedBody<C> {
    body: C,
    observation: Observation,
}

impl<C: Body<Data = Bytes> + Unpin> Body for ObservedBody<C> {
    type Data = Bytes;
    type Error = C::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, C::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let is_last = self.body.is_end_stream();
        let Self { observation, .. } = &mut *self;
        let Some(entry) = &mut observation.entry else { return Poll::Ready(frame) };
        if let Some(piece) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref) {
            entry.bytes += piece.remaining() as u64;
            observation.activity.step(piece.remaining() as u64);
        }
        // HTTP/3 and hq poll for the end after the last piece was sent; the other protocols never do.
        let asks = [Protocol::Hq, Protocol::Http3].contains(&observation.protocol) && entry.bytes > SMALL;
        entry.complete = frame.is_none() || is_last && !asks && !matches!(frame, Some(Err(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
