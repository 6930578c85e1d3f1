//! The proxy as a service for HTTP/3.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::proxy::Proxy;
use super::tcp::Download;
use super::tunnel::Tunnel;
use super::udp::Capsules;
use crate::http3::{Body, ConnectionInfo, Datagrams, Protocol};

/// Service that opens tunnels for CONNECT and CONNECT-UDP, and passes all other requests to another service.
#[derive(Clone, Debug)]
pub struct ProxyService<S> {
    proxy: Proxy,
    inner: S,
}

/// Service that has nothing: its responses are 404 (Not Found).
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

pin_project! {
    /// Body of a response: what a target sends, or the body of another service's response.
    #[project = TunnelBodyProjection]
    pub struct TunnelBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Tcp { #[pin] body: Download },
        Udp { #[pin] body: Capsules },
        Empty,
    }
}

impl<S> ProxyService<S> {
    /// Creates the service of `proxy` in front of `inner`.
    pub fn new(proxy: Proxy, inner: S) -> Self {
        Self { proxy, inner }
    }
}

impl<B> TunnelBody<B> {
    pub(super) fn tcp(body: Download) -> Self {
        Self { kind: Kind::Tcp { body } }
    }

    pub(super) fn udp(body: Capsules) -> Self {
        Self { kind: Kind::Udp { body } }
    }
}

impl<S, B> Service<Request<Body>> for ProxyService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: http_body::Body<Data = Bytes> + 'static,
{
    type Response = Response<TunnelBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let protocol = parts.extensions.get::<Protocol>().cloned();
        let protocol = protocol.as_ref().map(Protocol::as_str);
        let client = parts.extensions.get::<ConnectionInfo>().map(|info| info.remote);
        let asked = client.and_then(|client| self.proxy.asked(&parts, protocol, client));
        let Some(asked) = asked else {
            let inner = self.inner.call(Request::from_parts(parts, body));
            return Box::pin(async move {
                let response = inner.await?;
                Ok(response.map(|body| TunnelBody { kind: Kind::Inner { body } }))
            });
        };
        let datagrams = parts.extensions.get::<Datagrams>().cloned();
        let proxy = self.proxy.clone();
        Box::pin(async move {
            Ok(match proxy.open(asked).await {
                Ok(tunnel) => {
                    let head = tunnel.response(StatusCode::OK);
                    head.map(|()| Tunnel::over_http3(tunnel, body, datagrams))
                }
                Err(refusal) => refusal.response().map(|()| TunnelBody { kind: Kind::Empty }),
            })
        })
    }
}

impl Service<Request<Body>> for Nothing {
    type Response = Response<TunnelBody<Body>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        let mut response = Response::new(TunnelBody { kind: Kind::Empty });
        *response.status_mut() = StatusCode::NOT_FOUND;
        std::future::ready(Ok(response))
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for TunnelBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.project().kind.project() {
            KindProjection::Inner { body } => return body.poll_frame(cx),
            KindProjection::Tcp { body } => ready!(body.poll_frame(cx)),
            KindProjection::Udp { body } => ready!(body.poll_frame(cx)),
            KindProjection::Empty => None,
        };
        Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Empty => true,
            Kind::Tcp { .. } | Kind::Udp { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Tcp { .. } | Kind::Udp { .. } => SizeHint::default(),
        }
    }
}
