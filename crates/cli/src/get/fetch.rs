//! Download of one URL, from the request to the complete file.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::Connection;
use bytes::Bytes;
use http::{StatusCode, header};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::ask::{Ask, Errand};
use super::job::{Done, Job};
use super::monitor::Monitor;
use super::origin::Origin;
use super::origins::Origins;
use super::progress;
use super::resume::{Arrived, Fit, MAX_OVERLAP, Tries};
use crate::events;
use crate::exit::{self, Exit, Failure, Passing, Result};
use crate::output::Output;
use crate::target::Target;

/// Maximum number of redirections for one URL.
const MAX_REDIRECTS: usize = 10;
/// Maximum number of times that a request is sent again because the server did not process it.
const MAX_REJECTIONS: u32 = 3;

/// Settings and connections that all jobs of a round share.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) origins: Origins,
    pub(super) ask: Ask,
    pub(super) hq: bool,
    /// Maximum time for which a blocked output may stop the reading of a connection before a PING is sent.
    pub(super) pause: Duration,
    /// `true` if the content's SHA-256 is reported.
    pub(super) digest: bool,
    /// Maximum number of retries without progress.
    pub(super) retries: u32,
    /// `true` if nothing is reported on standard error.
    pub(super) quiet: bool,
    /// `true` if each complete file is reported on a line.
    pub(super) lines: bool,
    /// Observer of the progress.
    pub(super) monitor: Arc<Monitor>,
}

/// State of one file's download, over one or more responses.
struct Transfer {
    errand: Errand,
    output: Output,
    /// Last bytes of the file from an earlier command. The response must begin with them.
    tail: Vec<u8>,
    /// Offset at which the response must begin, if an earlier command left a partial file.
    from: Option<u64>,
    /// State of the received part; `None` before the first response.
    arrived: Option<Arrived>,
    /// `true` if a connection to the server was established.
    connected: bool,
    head_written: bool,
    continued: u32,
}

/// Facts about a response that has ended.
struct Ended {
    origin: Arc<Origin>,
    status: Option<StatusCode>,
    early_data: bool,
}

impl Transfer {
    fn bytes(&self) -> u64 {
        self.arrived.as_ref().map_or(0, Arrived::bytes)
    }

    /// Returns whether a retry may complete the file.
    fn may_go_on(&self, failure: &Failure) -> bool {
        let passes = match failure.may_pass() {
            Passing::Never => false,
            Passing::Lost | Passing::Unprocessed => self.connected,
            // A server that has never responded may not exist.
            Passing::Unanswered => self.arrived.is_some(),
        };
        let joins = self.arrived.as_ref().is_some_and(|arrived| arrived.rest().is_some());
        passes && self.errand.is_safe() && (joins || self.bytes() == 0 || self.output.can_be_taken_back())
    }

    /// Describes the progress.
    fn standing(&self) -> String {
        match self.arrived.as_ref().and_then(Arrived::wanted) {
            Some(wanted) => format!("{} of {wanted} bytes are here", self.bytes()),
            None => format!("{} bytes are here", self.bytes()),
        }
    }

    /// Discards the received part. Fails if the part was already passed on to an output that cannot take it
    /// back.
    fn begin_anew(&mut self, job: &Job, digest: bool, bar: &ProgressBar) -> Result {
        if self.bytes() > 0 && !self.output.can_be_taken_back() {
            let what = format!(
                "the file on the server is another one now, or cannot be had in parts, and {} bytes were written already",
                self.bytes()
            );
            return Err(Failure::new(Exit::Protocol, what).or("fetch it again"));
        }
        self.output = Output::open(&job.destination, digest)?;
        self.arrived = None;
        self.head_written = false;
        bar.set_position(0);
        Ok(())
    }
}

impl Round {
    /// Fetches one URL.
    pub(super) async fn fetch(&self, job: &Job, bar: &ProgressBar) -> Result<Done> {
        let begin = Instant::now();
        let tail = if self.hq { Vec::new() } else { job.destination.tail(MAX_OVERLAP)? };
        let from = (!tail.is_empty()).then(|| job.destination.begun().saturating_sub(tail.len() as u64));
        let errand = if self.hq { Errand::plain() } else { self.ask.errand(from)? };
        let output = Output::open(&job.destination, self.digest)?;
        let mut transfer = Transfer {
            errand,
            output,
            tail,
            from,
            arrived: None,
            connected: false,
            head_written: false,
            continued: 0,
        };
        let mut tries = Tries::new(self.retries);
        let mut made = 0;
        let Ended { origin, status, early_data } = loop {
            let failure = match self.attempt(job, &mut transfer, bar).await {
                Ok(ended) => break ended,
                Err(failure) => failure.about(&job.url),
            };
            if !transfer.may_go_on(&failure) {
                return Err(failure);
            }
            let next = tries.next(transfer.bytes(), jitter());
            let Some((number, pause)) = next else { return Err(failure.after(made)) };
            made = number;
            self.tell("retry", || {
                json!({
                    "url": job.url,
                    "reason": failure.what(),
                    "bytes": transfer.bytes(),
                    "of": transfer.arrived.as_ref().and_then(Arrived::wanted),
                    "pause_s": pause.as_secs_f64(),
                    "number": number,
                    "allowed": self.retries,
                })
            });
            let (what, standing, seconds) = (failure.what(), transfer.standing(), pause.as_secs_f64());
            let allowed = self.retries;
            self.say(&format!("{what}; {standing}; trying again in {seconds:.1} s ({number} of {allowed})"));
            tokio::time::sleep(pause).await;
        };
        let took = begin.elapsed();
        let (bytes, continued) = (transfer.bytes(), transfer.continued);
        let digest = transfer.output.keep().await?;
        Ok(Done { bytes, took, digest, status, early_data, continued, origin })
    }

    /// Fetches the missing part, with one response.
    async fn attempt(&self, job: &Job, transfer: &mut Transfer, bar: &ProgressBar) -> Result<Ended> {
        let (origin, mut answer, early_data, mut again) = self.answer_that_fits(job, transfer, bar).await?;
        if let Some(head) = answer.head().filter(|_| self.ask.include || self.ask.head)
            && !std::mem::replace(&mut transfer.head_written, true)
        {
            transfer.output.write(answer::text(head)).await?;
        }
        let status = answer.head().map(http::Response::status);
        let tail = &transfer.tail;
        let arrived = transfer.arrived.get_or_insert_with(|| {
            again = tail.len();
            Arrived::behind(&head_of(&answer), tail.clone())
        });
        if let Some(len) = arrived.wanted() {
            progress::set_length(bar, len);
        }
        self.tell("answer", || {
            json!({
                "url": job.url,
                "connection": events::id(origin.connection()),
                "status": status.map(|status| status.as_u16()),
                "of": arrived.wanted(),
            })
        });
        while let Some(mut piece) = answer.piece().await? {
            if again > 0 {
                arrived.compare(&mut piece, &mut again)?;
            }
            arrived.push(&piece);
            bar.inc(piece.len() as u64);
            self.monitor.count(piece.len());
            pass_on(piece, &mut transfer.output, origin.connection(), self.pause).await?;
        }
        let is_whole = again == 0 && arrived.wanted().is_none_or(|wanted| wanted == arrived.bytes());
        if (transfer.continued > 0 || !transfer.tail.is_empty()) && !is_whole {
            return Err(Failure::new(
                Exit::Protocol,
                format!("the rest is not whole: {}", transfer.standing()),
            ));
        }
        Ok(Ended { origin, status, early_data })
    }

    /// Requests the missing part. Returns a response that continues the received part, with the number of
    /// bytes that it repeats first; or else a response with the whole file.
    async fn answer_that_fits(
        &self,
        job: &Job,
        transfer: &mut Transfer,
        bar: &ProgressBar,
    ) -> Result<(Arc<Origin>, Answer, bool, usize)> {
        let rest = transfer.arrived.as_ref().and_then(Arrived::rest);
        if let Some(rest) = rest {
            let errand = transfer.errand.clone().with(rest);
            let (origin, answer, early_data) = self.answered(&job.target, errand, false, transfer).await?;
            let fit = transfer.arrived.as_ref().map(|arrived| arrived.fit(&head_of(&answer)));
            match fit.transpose()? {
                Some(Fit::GoesOn(again)) => {
                    transfer.continued += 1;
                    self.say(&format!("{}: goes on, {}", job.url, transfer.standing()));
                    let fields = || json!({ "url": job.url, "connection": events::id(origin.connection()), "bytes": transfer.bytes() });
                    self.tell("resumed", fields);
                    return Ok((origin, answer, early_data, again));
                }
                Some(Fit::Anew) | None => {
                    transfer.begin_anew(job, self.digest, bar)?;
                    self.say(&format!(
                        "{}: begins anew, as it is not the same file or has no parts",
                        job.url
                    ));
                    self.tell("restarted", || json!({ "url": job.url }));
                    if head_of(&answer).status().is_success() {
                        return Ok((origin, answer, early_data, 0));
                    }
                }
            }
        } else if transfer.arrived.is_some() {
            transfer.begin_anew(job, self.digest, bar)?;
        }
        let errand = transfer.errand.clone();
        let (origin, answer, early_data) = self.answered(&job.target, errand, true, transfer).await?;
        Ok((origin, answer, early_data, 0))
    }

    /// Returns the final response, after all redirections. If `checked`, fails unless it matches the request.
    async fn answered(
        &self,
        target: &Target,
        mut errand: Errand,
        checked: bool,
        transfer: &mut Transfer,
    ) -> Result<(Arc<Origin>, Answer, bool)> {
        let mut target = target.clone();
        for _ in 0..=MAX_REDIRECTS {
            let (origin, answer) = self.asked(&target, &errand, transfer).await?;
            let Some(status) = moved(&answer).filter(|_| self.ask.follow) else {
                if checked {
                    check(&target, &answer, errand.partial, transfer.from)?;
                }
                let early_data = origin.early_data_accepted(&target).await?;
                return Ok((origin, answer, early_data));
            };
            let location = answer.field(header::LOCATION).unwrap_or_default();
            let next = target.redirected(location)?;
            errand.redirect(status, (&next.host, next.port) != (&target.host, target.port));
            target = next;
        }
        Err(Failure::new(
            Exit::Http,
            format!("more than {MAX_REDIRECTS} redirections, the last one to {target}"),
        ))
    }

    /// Sends a request and waits for the beginning of the response. A request that the server has not processed, for instance because it
    /// restarts, is sent again at once, on another connection.
    async fn asked(
        &self,
        target: &Target,
        errand: &Errand,
        transfer: &mut Transfer,
    ) -> Result<(Arc<Origin>, Answer)> {
        let mut rejections = 0;
        loop {
            let origin = self.origins.reach(target, transfer.connected).await?;
            transfer.connected = true;
            let answer = origin.ask(target, errand).await;
            match answer.inspect_err(|_| self.origins.leave(target, &origin)) {
                Ok(answer) => return Ok((origin, answer)),
                Err(failure) if failure.may_pass() == Passing::Unprocessed && rejections < MAX_REJECTIONS => {
                    rejections += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Prints a message for people unless `--quiet` is set.
    fn say(&self, what: &str) {
        if !self.quiet {
            exit::note(format_args!("anabranch: {what}"));
        }
    }

    /// Emits an event.
    fn tell(&self, name: &'static str, fields: impl FnOnce() -> Value) {
        self.monitor.events.tell(name, fields);
    }
}

/// Returns a response's status and header; hq-interop has none.
fn head_of(answer: &Answer) -> http::Response<()> {
    let mut head = http::Response::new(());
    if let Some(known) = answer.head() {
        *head.status_mut() = known.status();
        head.headers_mut().clone_from(known.headers());
    }
    head
}

/// Returns the response's status if it is a redirection.
fn moved(answer: &Answer) -> Option<StatusCode> {
    use StatusCode as S;
    let status = answer.head()?.status();
    let moves = [S::MOVED_PERMANENTLY, S::FOUND, S::SEE_OTHER, S::TEMPORARY_REDIRECT, S::PERMANENT_REDIRECT];
    (moves.contains(&status) && answer.field(header::LOCATION).is_some()).then_some(status)
}

/// Fails unless the response has what was requested. With `from`, a partial response must begin there.
fn check(target: &Target, answer: &Answer, partial: bool, from: Option<u64>) -> Result {
    let Some(status) = answer.head().map(http::Response::status) else { return Ok(()) };
    let failure = |what: &str| Err(Failure::new(Exit::Http, format!("{target}: {what}")));
    let content_range = answer.field(header::CONTENT_RANGE).unwrap_or_default();
    if moved(answer).is_some() {
        let to = answer.field(header::LOCATION).unwrap_or_default();
        return failure(&format!("moved to {to}; follow it with --location"));
    }
    match status {
        StatusCode::RANGE_NOT_SATISFIABLE if from.is_some() => {
            failure(&format!("{status}: more is here already; remove it to begin anew"))
        }
        StatusCode::PARTIAL_CONTENT
            if from.is_some_and(|from| !content_range.starts_with(&format!("bytes {from}-"))) =>
        {
            failure("the server sends another part than the rest")
        }
        StatusCode::PARTIAL_CONTENT => Ok(()),
        status if status.is_success() && partial => {
            failure("the server sends the whole instead of a part; leave --range and --continue out")
        }
        status if status.is_success() => Ok(()),
        status => failure(&status.to_string()),
    }
}

/// Returns a random number, or 0 if there is no randomness, which is no reason to fail.
fn jitter() -> u16 {
    let mut bytes = [0; 2];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u16::from_ne_bytes(bytes)
}

/// Writes a piece. While the output is blocked, sends a PING after every `pause`.
async fn pass_on(piece: Bytes, output: &mut Output, connection: &Connection, pause: Duration) -> Result {
    let mut written = pin!(output.write(piece));
    loop {
        match tokio::time::timeout(pause, &mut written).await {
            Ok(done) => return done,
            Err(_) => connection.ping(),
        }
    }
}
