//! Requests for tunnels, on the first connection whose stream limit allows one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use anabranch_http3::message::Protocol;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, Uri, uri};
use tokio::time::{Instant, timeout, timeout_at};

use super::connect::Live;
use super::error::{Refusal, TunnelError};
use super::keeper::{Keeper, ProxyState};
use super::target::Target;
use crate::http3::{self, RecvHalf, SendHalf};
use crate::proxy::FlowTerms;
use crate::proxy::copies::FIELD;
use crate::proxy::ip::EVERYTHING;

/// Maximum number of requests for one tunnel. Another one is sent only if the connection of the last one was
/// lost, or if the proxy rejected the last one (H3_REQUEST_REJECTED).
const MAX_TRIES: u32 = 3;

/// Request for a tunnel.
#[derive(Clone, Debug)]
pub(super) struct Head {
    uri: Uri,
    /// Credentials, if the client has any.
    credentials: Option<HeaderValue>,
    /// Protocol of an extended CONNECT (RFC 9220).
    protocol: Option<Protocol>,
    /// Terms of a UDP flow.
    terms: FlowTerms,
}

/// An accepted tunnel.
pub(super) struct Opened {
    pub(super) live: Arc<Live>,
    pub(super) send: SendHalf,
    pub(super) receive: RecvHalf,
    /// Terms of a UDP flow to which the proxy has agreed.
    pub(super) agreed: FlowTerms,
}

impl Head {
    /// Creates the request of a TCP connection (RFC 9114 §4.4).
    pub(super) fn tcp(keeper: &Keeper, target: &Target) -> Result<Self, TunnelError> {
        let uri = Uri::builder().authority(target.to_string()).build();
        Self::new(keeper, uri, None)
    }

    /// Creates the request of a UDP flow (RFC 9298 §3.4).
    pub(super) fn udp(keeper: &Keeper, target: &Target) -> Result<Self, TunnelError> {
        Self::new(keeper, Self::template(keeper, target.udp_path()), Some(Protocol::CONNECT_UDP))
    }

    /// Creates the request of a tunnel for IP packets (RFC 9484 §4.4).
    pub(super) fn ip(keeper: &Keeper) -> Result<Self, TunnelError> {
        let uri = Self::template(keeper, EVERYTHING.to_owned());
        Self::new(keeper, uri, Some(Protocol::CONNECT_IP))
    }

    /// Returns the request with terms of its UDP flow.
    pub(super) fn with_terms(self, terms: FlowTerms) -> Self {
        Self { terms, ..self }
    }

    /// Returns the URI of a path on the proxy.
    fn template(keeper: &Keeper, path: String) -> Result<Uri, http::Error> {
        let authority = keeper.config.authority();
        Uri::builder().scheme(uri::Scheme::HTTPS).authority(authority).path_and_query(path).build()
    }

    fn new(
        keeper: &Keeper,
        uri: Result<Uri, http::Error>,
        protocol: Option<Protocol>,
    ) -> Result<Self, TunnelError> {
        let reason = "the target cannot be requested";
        let url = keeper.config.authority();
        let uri = uri.map_err(|_| TunnelError::Http3(http3::Error::Url { url, reason }))?;
        let credentials = keeper.config.credentials.as_ref().map(super::Credentials::value);
        Ok(Self { uri, credentials, protocol, terms: FlowTerms::default() })
    }

    fn request(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = http::Method::CONNECT;
        *request.uri_mut() = self.uri.clone();
        if let Some(value) = &self.credentials {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value.clone());
        }
        request.headers_mut().extend(self.terms.value().map(|terms| (FIELD, terms)));
        if let Some(protocol) = &self.protocol {
            request.extensions_mut().insert(protocol.clone());
            // RFC 9298 §3.4, RFC 9484 §4.4: capsules follow (RFC 9297 §3.4).
            request.headers_mut().insert("capsule-protocol", HeaderValue::from_static("?1"));
            // The proxy is also the origin server of the URI, so some proxies require `Authorization` (401).
            if let Some(value) = &self.credentials {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
            }
        }
        request
    }
}

impl Keeper {
    /// Requests a tunnel, and waits until the proxy has accepted it. If the connection is lost before that,
    /// or if the proxy no longer accepts requests on it, repeats the request on another connection. That is
    /// safe, because no byte of the tunnel has been sent yet.
    pub(super) async fn open(self: &Arc<Self>, head: &Head) -> Result<Opened, TunnelError> {
        let deadline = Instant::now() + self.config.patience;
        let mut tries = 0;
        loop {
            let (live, send, mut receive) = self.begin(head, deadline).await?;
            tries += 1;
            let patience = self.config.response_timeout;
            let response = timeout(patience, final_response(&mut receive)).await;
            match response.map_err(|_| TunnelError::TimedOut(patience))? {
                Ok(response) if response.status().is_success() => {
                    let agreed = FlowTerms::of(response.headers());
                    return Ok(Opened { live, send, receive, agreed });
                }
                Ok(response) => return Err(Refusal::of(&response).into()),
                Err(http3::Error::Rejected | http3::Error::ConnectionLost(_)) if tries < MAX_TRIES => {
                    self.leave(&live, live.http3.quic().close_reason().map(http3::Error::ConnectionLost));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends the request on the first connection whose stream limit allows it. Waits for a connection if
    /// there is none, and for another connection or a free stream if all are full.
    async fn begin(
        self: &Arc<Self>,
        head: &Head,
        deadline: Instant,
    ) -> Result<(Arc<Live>, SendHalf, RecvHalf), TunnelError> {
        let mut waiting = None;
        loop {
            let mut changes = self.subscribe();
            let live = self.live();
            for live in &live {
                if let Some((send, receive)) = self.try_on(live, head, deadline).await? {
                    return Ok((Arc::clone(live), send, receive));
                }
            }
            self.ask_for(live.len() + 1)?;
            if waiting.is_none() {
                waiting = Some(self.wait().ok_or(TunnelError::Busy)?);
            }
            let room = async {
                match live.first() {
                    Some(live) => Some((Arc::clone(live), live.http3.request(head.request()).await)),
                    None => std::future::pending().await,
                }
            };
            let next = async {
                tokio::select! {
                    _ = changes.changed() => None,
                    begun = room => begun,
                }
            };
            match timeout_at(deadline, next).await {
                Ok(Some((live, Ok((send, receive))))) => return Ok((live, send, receive)),
                Ok(Some((live, Err(_)))) => self.leave(&live, None),
                Ok(None) => {}
                Err(_) => return Err(self.late()),
            }
        }
    }

    /// Waits for a connection.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<Arc<Live>, TunnelError> {
        let deadline = Instant::now() + self.config.patience;
        let _waiting = self.wait().ok_or(TunnelError::Busy)?;
        loop {
            let mut changes = self.subscribe();
            if let Some(live) = self.live().into_iter().next() {
                return Ok(live);
            }
            self.ask_for(1)?;
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return Err(self.late());
            }
        }
    }

    /// Requests this number of connections. Fails if the client is closed, or if the last attempt failed
    /// lastingly.
    fn ask_for(self: &Arc<Self>, connections: usize) -> Result<(), TunnelError> {
        let published = self.published();
        if matches!(published, ProxyState::Closed) {
            return Err(TunnelError::Closed);
        }
        self.want(connections);
        match published {
            ProxyState::Failing(failure) if failure.is_lasting() => Err(TunnelError::Unavailable(failure)),
            _ => Ok(()),
        }
    }

    /// Sends the request if the connection's stream limit allows it now; `None` if it does not, or if the
    /// connection is lost or accepts no more requests.
    async fn try_on(
        &self,
        live: &Arc<Live>,
        head: &Head,
        deadline: Instant,
    ) -> Result<Option<(SendHalf, RecvHalf)>, TunnelError> {
        if head.protocol.is_some() {
            // An extended CONNECT needs the server's SETTINGS (RFC 9220 §3).
            match timeout_at(deadline, live.http3.settings()).await {
                Ok(Ok(settings)) if !settings.enable_connect_protocol => return Err(TunnelError::NoUdp),
                Ok(Ok(_)) => {}
                Ok(Err(_)) => {
                    self.leave(live, live.http3.quic().close_reason().map(http3::Error::ConnectionLost));
                    return Ok(None);
                }
                Err(_) => return Err(self.late()),
            }
        }
        let mut request = pin!(live.http3.request(head.request()));
        match poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await {
            Poll::Ready(Ok(halves)) => Ok(Some(halves)),
            Poll::Ready(Err(http3::Error::Invalid(error))) => Err(http3::Error::Invalid(error).into()),
            Poll::Ready(Err(_)) => {
                self.leave(live, live.http3.quic().close_reason().map(http3::Error::ConnectionLost));
                Ok(None)
            }
            Poll::Pending => Ok(None),
        }
    }

    /// Returns the error of a tunnel that has found no connection with a free stream in time.
    fn late(&self) -> TunnelError {
        match self.published() {
            ProxyState::Failing(failure) => TunnelError::Unavailable(failure),
            _ => TunnelError::TimedOut(self.config.patience),
        }
    }
}

/// Waits for the final response, and ignores interim ones (1xx).
async fn final_response(receive: &mut RecvHalf) -> Result<Response<()>, http3::Error> {
    loop {
        let response = receive.response().await?;
        if !response.status().is_informational() {
            return Ok(response);
        }
    }
}
