//! The proxy as a service for HTTP/3.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower_service::Service;

use super::body::TunnelBody;
use super::proxy::Proxy;
use super::tunnel::Tunnel;
use crate::http3::{Body, ConnectionInfo, Datagrams, Protocol};

/// Service that opens tunnels for CONNECT, CONNECT-UDP and CONNECT-IP, and passes all other requests to another service.
#[derive(Clone, Debug)]
pub struct ProxyService<S> {
    proxy: Proxy,
    inner: S,
}

/// Service without resources: it responds to each request with 404 (Not Found).
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl<S> ProxyService<S> {
    /// Creates the service of `proxy` in front of `inner`.
    pub fn new(proxy: Proxy, inner: S) -> Self {
        Self { proxy, inner }
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
                Ok(response.map(|body| TunnelBody::inner(body)))
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
                Err(refusal) => refusal.response().map(|()| TunnelBody::empty()),
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
        let mut response = Response::new(TunnelBody::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        std::future::ready(Ok(response))
    }
}
