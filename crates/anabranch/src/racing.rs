//! Connection attempts on several candidates, one after the other, until the server responds (RFC 8305).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_transport::ClientConfig;
use tracing::debug;

use crate::connection::{Connecting, Connection, ZeroRttAccepted};
use crate::endpoint::Endpoint;
use crate::error::AttemptError;
use crate::log::ENDPOINT;
use crate::paths::{Candidate, Race, RacePolicy};
use crate::runtime::{Instant, Sleep, sleep_until};

impl Endpoint {
    /// Connects to a server by one of several candidates; see
    /// [`PathPolicy::candidates`](crate::PathPolicy::candidates) and [`Candidate::to_any_of`]. The handshake
    /// begins on the first one. While nothing is received, another attempt begins on the next candidate after
    /// each [`RacePolicy::delay`], and at once when an attempt fails. The first handshake that completes
    /// wins. The other attempts are closed; the application does not notice them, but the server may.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), anabranch::Error> {
    /// # use anabranch::{Endpoint, PathPolicy, RacePolicy, SelfSigned, Candidate, config};
    /// # let identity = SelfSigned::new(["localhost"])?;
    /// # let server = Endpoint::server(identity.server_config(["example"])?, "127.0.0.1:0".parse()?)?;
    /// # let addresses = [server.local_addr()?];
    /// # tokio::spawn(async move { Some(server.accept().await?.await.ok()?.closed().await) });
    /// let client = Endpoint::client("0.0.0.0:0".parse()?)?;
    /// let config = config::client(identity.roots()?, ["example"])?;
    /// let policy = PathPolicy::default().allowing(["lo".parse()?]);
    /// let candidates = policy.candidates(&addresses).await;
    /// let connection = client.connect_any(&config, candidates, "localhost", RacePolicy::default()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn connect_any(
        &self,
        config: &ClientConfig,
        candidates: Vec<Candidate>,
        server_name: &str,
        policy: RacePolicy,
    ) -> Racing {
        let mut attempts = Box::new(Attempts {
            endpoint: self.clone(),
            config: config.clone(),
            server_name: server_name.to_owned(),
            race: Race::new(self.inner.driver.now(), candidates.len(), policy),
            candidates,
            running: Vec::new(),
            failure: None,
            sleep: Box::pin(sleep_until(Instant::now())),
        });
        attempts.begin_due();
        Racing(attempts)
    }
}

/// A connection that is being set up by one of several candidates. Awaiting it waits for the first handshake
/// that completes; dropping it closes all attempts.
#[derive(Debug)]
#[must_use = "a connection is only set up while it is awaited"]
pub struct Racing(Box<Attempts>);

#[derive(Debug)]
struct Attempts {
    endpoint: Endpoint,
    config: ClientConfig,
    server_name: String,
    candidates: Vec<Candidate>,
    race: Race,
    running: Vec<Connecting>,
    /// Error that is returned if no attempt succeeds.
    failure: Option<AttemptError>,
    sleep: Pin<Box<Sleep>>,
}

impl Racing {
    /// Returns the connection of the first attempt before its handshake is complete; see
    /// [`Connecting::into_0rtt`]. No other attempt is started, since a server would process early data twice
    /// if it were sent twice.
    ///
    /// # Errors
    /// Returns `self` if this client stores no session of the server that allows early data.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let Some(first) = self.0.running.pop() else { return Err(self) };
        first.into_0rtt().map_err(|first| {
            self.0.running.push(first);
            self
        })
    }

    /// Returns the number of running attempts.
    pub fn attempts(&self) -> usize {
        self.0.running.len()
    }
}

impl Attempts {
    fn heard(&self) -> u64 {
        self.running.iter().map(Connecting::heard).sum()
    }

    /// Starts attempts that are due. If one cannot be started, the next one becomes due at once.
    fn begin_due(&mut self) {
        loop {
            let now = self.endpoint.inner.driver.now();
            let heard = self.heard();
            let Some(candidate) = self.race.due(now, heard).and_then(|at| self.candidates.get(at)) else {
                return;
            };
            let remotes: Vec<_> = self.candidates.iter().map(|candidate| candidate.remote).collect();
            match self.endpoint.connect_by(&self.config, candidate, &remotes, &self.server_name) {
                Ok(connecting) => self.running.push(connecting),
                Err(error) => {
                    debug!(target: ENDPOINT, remote = %candidate.remote, %error, "cannot connect this candidate");
                    self.note(error.into());
                }
            }
        }
    }

    fn note(&mut self, failure: AttemptError) {
        // A missing route explains less than any other failure, so a later failure replaces it.
        if self.failure.as_ref().is_none_or(AttemptError::is_without_route) {
            self.failure = Some(failure);
        }
        let heard = self.heard();
        self.race.on_failed(self.endpoint.inner.driver.now(), heard);
    }

    /// Returns the connection if one of the attempts has succeeded.
    fn poll_running(&mut self, cx: &mut Context<'_>) -> Option<Connection> {
        let mut at = 0;
        while at < self.running.len() {
            match Pin::new(&mut self.running[at]).poll(cx) {
                Poll::Ready(Ok(connection)) => return Some(connection),
                Poll::Ready(Err(error)) => {
                    drop(self.running.remove(at));
                    self.note(error.into());
                }
                Poll::Pending => {
                    if self.running[at].take_unreachable() {
                        let heard = self.heard();
                        self.race.on_failed(self.endpoint.inner.driver.now(), heard);
                    }
                    at += 1;
                }
            }
        }
        None
    }
}

impl Future for Racing {
    type Output = Result<Connection, AttemptError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self.0;
        loop {
            if let Some(connection) = this.poll_running(cx) {
                this.running.clear();
                return Poll::Ready(Ok(connection));
            }
            let begun = this.running.len();
            this.begin_due();
            if this.running.len() > begun {
                // The new attempts must be polled, too, so that they wake this task.
                continue;
            }
            let Some(next) = this.race.next() else {
                return match this.running.is_empty() {
                    true => Poll::Ready(Err(this.failure.take().unwrap_or(AttemptError::NoCandidates))),
                    false => Poll::Pending,
                };
            };
            this.sleep.as_mut().reset(this.endpoint.inner.driver.clock.instant(next));
            std::task::ready!(this.sleep.as_mut().poll(cx));
        }
    }
}
