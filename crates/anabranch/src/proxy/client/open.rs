//! Requests for tunnels, on the first connection whose stream limit allows one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use anabranch_http3::Code;
use http::Response;
use tokio::time::{Instant, timeout, timeout_at};

use super::carrier::Carrier;
use super::error::{Refusal, TunnelError};
use super::head::Head;
use super::keeper::{Keeper, ProxyState};
use super::stream::{StreamError, TunnelReceiver, TunnelSender};
use crate::http3;
use crate::proxy::{FlowTerms, has_content_fields};

/// Maximum number of requests for one tunnel. Another one is sent only if the connection of the last one was
/// lost, or if the proxy rejected the last one (H3_REQUEST_REJECTED).
const MAX_TRIES: u32 = 3;

/// An accepted tunnel.
pub(super) struct Opened {
    pub(super) carrier: Carrier,
    pub(super) send: TunnelSender,
    pub(super) receive: TunnelReceiver,
    /// Wishes for a UDP flow that the proxy has agreed to.
    pub(super) agreed: FlowTerms,
}

impl Keeper {
    /// Requests a tunnel, and waits until the proxy has accepted it. If the connection is lost before that,
    /// or if the proxy no longer accepts requests on it, repeats the request on another connection. That is
    /// safe, because no byte of the tunnel has been sent yet.
    pub(super) async fn open(self: &Arc<Self>, head: &Head) -> Result<Opened, TunnelError> {
        let deadline = Instant::now() + self.config.patience;
        let mut tries = 0;
        loop {
            let (carrier, mut send, mut receive) = self.begin(head, deadline).await?;
            tries += 1;
            let patience = self.config.response_timeout;
            let response = timeout(patience, receive.response()).await;
            match response.map_err(|_| TunnelError::TimedOut(patience))? {
                Ok(response) if head.is_extended() && cannot_have_capsules(&response) => {
                    send.reset(Code::MESSAGE_ERROR);
                    receive.stop(Code::MESSAGE_ERROR);
                    return Err(http3::Error::Malformed(Code::MESSAGE_ERROR).into());
                }
                Ok(response) if response.status().is_success() => {
                    let agreed = FlowTerms::of(response.headers());
                    return Ok(Opened { carrier, send, receive, agreed });
                }
                Ok(response) => return Err(Refusal::of(&response).into()),
                Err(error) if error.may_be_repeated() && tries < MAX_TRIES => {
                    self.leave(&carrier, carrier.end());
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
    ) -> Result<(Carrier, TunnelSender, TunnelReceiver), TunnelError> {
        let mut waiting = None;
        loop {
            let mut changes = self.subscribe();
            let carriers = self.carriers();
            for carrier in &carriers {
                if let Some((send, receive)) = self.try_on(carrier, head, deadline).await? {
                    return Ok((carrier.clone(), send, receive));
                }
            }
            self.ask_for(self.live().len() + 1)?;
            if waiting.is_none() {
                waiting = Some(self.wait().ok_or(TunnelError::Busy)?);
            }
            let room = async {
                match carriers.first() {
                    Some(carrier) => Some((carrier.clone(), carrier.request(head).await)),
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
                Ok(Some((carrier, Ok((send, receive))))) => return Ok((carrier, send, receive)),
                Ok(Some((carrier, Err(_)))) => self.leave(&carrier, None),
                Ok(None) => {}
                Err(_) => return Err(self.late()),
            }
        }
    }

    /// Waits for a connection.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<Carrier, TunnelError> {
        let deadline = Instant::now() + self.config.patience;
        let _waiting = self.wait().ok_or(TunnelError::Busy)?;
        loop {
            let mut changes = self.subscribe();
            if let Some(carrier) = self.carriers().into_iter().next() {
                return Ok(carrier);
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
        carrier: &Carrier,
        head: &Head,
        deadline: Instant,
    ) -> Result<Option<(TunnelSender, TunnelReceiver)>, TunnelError> {
        if head.is_extended() {
            // An extended CONNECT needs the server's SETTINGS (RFC 8441 §3, RFC 9220 §3).
            match timeout_at(deadline, carrier.supports_extended_connect()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Err(TunnelError::NoUdp),
                Ok(Err(_)) => {
                    self.leave(carrier, carrier.end());
                    return Ok(None);
                }
                Err(_) => return Err(self.late()),
            }
        }
        let mut request = pin!(carrier.request(head));
        match poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await {
            Poll::Ready(Ok(halves)) => Ok(Some(halves)),
            Poll::Ready(Err(StreamError::Http3(http3::Error::Invalid(error)))) => {
                Err(http3::Error::Invalid(error).into())
            }
            Poll::Ready(Err(_)) => {
                self.leave(carrier, carrier.end());
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

/// Returns whether a response accepts a tunnel with capsules, but is malformed: its status or its fields are about content
/// (RFC 9297 §3.2).
fn cannot_have_capsules(response: &Response<()>) -> bool {
    let status = response.status();
    status.is_success() && (matches!(status.as_u16(), 204..=206) || has_content_fields(response.headers()))
}
