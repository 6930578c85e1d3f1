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

/// Longest answer that HTTP/3 may take over in one go, without asking for its end.
const SMALL: u64 = 4 * 1024;

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests that were begun, and bytes of content that were taken to be sent.
    steps: AtomicU64,
    /// Requests that are being answered.
    running: AtomicU64,
}

impl Activity {
    fn step(&self, size: u64) {
        self.steps.fetch_add(size, Ordering::Relaxed);
    }

    /// Waits until nothing has gone on for `quiet`, or up to twice as long: no request was begun, and of those that are
    /// being answered nothing was taken. While there are such, it takes `stall` in all; for ever if that is `None`.
    pub(super) async fn idle_for(&self, quiet: Duration, stall: Option<Duration>) {
        let mut before = self.steps.load(Ordering::Relaxed);
        let mut since = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.steps.load(Ordering::Relaxed);
            if now != before {
                since = tokio::time::Instant::now();
            } else if self.running.load(Ordering::Relaxed) == 0
                || stall.is_some_and(|stall| since.elapsed() >= stall)
            {
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
        self.activity.running.fetch_add(1, Ordering::Relaxed);
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
                // Content that is not there is not asked for.
                entry.complete = answer.body().is_end_stream();
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
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
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
        let is_last = self.body.is_end_stream();
        let Self { observation, .. } = &mut *self;
        let Some(entry) = &mut observation.entry else { return Poll::Ready(frame) };
        if let Some(piece) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref) {
            entry.bytes += piece.remaining() as u64;
            observation.activity.step(piece.remaining() as u64);
        }
        // HTTP/3 and hq ask for the end once the last piece has been sent; the others never do.
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
        tokio::join!(activity.idle_for(quiet, None), walking);
        let idle = begin.elapsed();
        assert!((2 * quiet..6 * quiet).contains(&idle), "{idle:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_taken_have_longer() {
        let minute = Duration::from_secs(60);
        let activity = Activity { running: AtomicU64::new(1), ..Activity::default() };
        let forever = tokio::time::timeout(100 * minute, activity.idle_for(minute, None));
        assert!(forever.await.is_err());
        let long = tokio::time::timeout(100 * minute, activity.idle_for(minute, Some(5 * minute)));
        long.await.unwrap();
        activity.running.store(0, Ordering::Relaxed);
        let short = tokio::time::timeout(3 * minute, activity.idle_for(minute, None));
        short.await.unwrap();
    }
}
