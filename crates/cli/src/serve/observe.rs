//! What becomes of each request, for the access log and the metrics: a service around a service.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Buf, Bytes};
use http::header::{HeaderName, REFERER, USER_AGENT};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower_service::Service;

use super::log::{Entry, clip};
use super::shared::Shared;

/// What a request came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    Hq,
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Its name in TLS (RFC 7301).
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hq => "hq",
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        }
    }
}

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests that were begun, and bytes of content that were taken to be sent.
    steps: AtomicU64,
}

impl Activity {
    fn step(&self, size: u64) {
        self.steps.fetch_add(size, Ordering::Relaxed);
    }

    /// Waits until nothing has gone on for `quiet`, or up to twice as long: no request was begun, and of those that are
    /// being answered nothing was taken.
    pub(super) async fn idle_for(&self, quiet: Duration) {
        let mut before = self.steps.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.steps.load(Ordering::Relaxed);
            if now == before {
                return;
            }
            before = now;
        }
    }
}

/// A service whose answers are observed until their end.
#[derive(Clone, Debug)]
pub(super) struct Observed<S> {
    service: S,
    shared: Arc<Shared>,
    protocol: Protocol,
    peer: SocketAddr,
    activity: Arc<Activity>,
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
            }
            Ok(answer.map(|body| ObservedBody { body, observation }))
        })
    }
}

/// One request until its answer is dropped, be it sent or given up.
#[derive(Debug)]
struct Observation {
    /// Taken when it ends.
    entry: Option<Entry>,
    begin: Instant,
    protocol: Protocol,
    shared: Arc<Shared>,
    activity: Arc<Activity>,
}

impl Drop for Observation {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.duration = self.begin.elapsed();
        self.shared.metrics.request(self.protocol, &entry);
        self.shared.log.write(entry);
    }
}

/// The content of an answer, counted as it is taken to be sent.
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
        let piece = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
        if let (Some(piece), Some(entry)) = (piece, &mut self.observation.entry) {
            entry.bytes += piece.remaining() as u64;
            self.observation.activity.step(piece.remaining() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_keep_a_connection_from_being_idle() {
        let (quiet, walk) = (Duration::from_secs(1), Duration::from_millis(1_500));
        let activity = Activity::default();
        let begin = Instant::now();
        let walking = async {
            while begin.elapsed() < walk {
                tokio::time::sleep(Duration::from_millis(10)).await;
                activity.step(1);
            }
        };
        tokio::join!(activity.idle_for(quiet), walking);
        let idle = begin.elapsed();
        assert!((2 * quiet..6 * quiet).contains(&idle), "{idle:?}");
    }
}
