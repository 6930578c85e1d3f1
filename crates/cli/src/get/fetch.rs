//! One URL, from the question to the file.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::Connection;
use aws_lc_rs::digest::Digest;
use bytes::Bytes;
use http::{StatusCode, header};
use indicatif::ProgressBar;

use super::answer::{self, Answer};
use super::ask::{Ask, Errand};
use super::origin::{Origin, Origins};
use super::progress;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Destination, Output};
use crate::target::Target;

/// Redirections that are followed for one URL.
const MAX_REDIRECTS: usize = 10;

/// Something to fetch.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// As it was given.
    pub(super) url: String,
    pub(super) target: Target,
    pub(super) destination: Destination,
}

/// What all jobs of a round share.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) origins: Origins,
    pub(super) ask: Ask,
    pub(super) hq: bool,
    /// How long the output may hold a connection up.
    pub(super) pause: Duration,
    /// Whether anybody wants to know the content's SHA-256.
    pub(super) digest: bool,
}

/// Something that was fetched.
pub(super) struct Done {
    pub(super) bytes: u64,
    pub(super) took: Duration,
    pub(super) digest: Option<Digest>,
    pub(super) status: Option<StatusCode>,
    pub(super) early_data: bool,
    pub(super) origin: Arc<Origin>,
}

impl Round {
    /// Fetches one URL.
    pub(super) async fn fetch(&self, job: &Job, bar: &ProgressBar) -> Result<Done> {
        let begin = Instant::now();
        let begun = job.destination.begun();
        let errand = if self.hq { Errand::plain() } else { self.ask.errand(begun)? };
        let mut output = Output::open(&job.destination, self.digest)?;
        let (origin, mut answer, early_data) = self.answered(&job.target, errand, begun).await?;
        if let Some(len) = answer.len() {
            progress::set_length(bar, len);
        }
        if let Some(head) = answer.head().filter(|_| self.ask.include || self.ask.head) {
            output.write(answer::text(head)).await?;
        }
        let mut bytes = 0;
        let status = answer.head().map(http::Response::status);
        if status != Some(StatusCode::RANGE_NOT_SATISFIABLE) {
            while let Some(piece) = answer.piece().await? {
                bytes += piece.len() as u64;
                bar.inc(piece.len() as u64);
                pass_on(piece, &mut output, origin.connection(), self.pause).await?;
            }
        }
        let took = begin.elapsed();
        let digest = output.keep().await?;
        Ok(Done { bytes, took, digest, status, early_data, origin })
    }

    /// The answer that is good, from whichever server has it.
    async fn answered(
        &self,
        target: &Target,
        mut errand: Errand,
        begun: u64,
    ) -> Result<(Arc<Origin>, Answer, bool)> {
        let mut target = target.clone();
        for _ in 0..=MAX_REDIRECTS {
            let origin = self.origins.reach(&target).await?;
            let answer = origin.ask(&target, &errand).await?;
            let Some(status) = moved(&answer).filter(|_| self.ask.follow) else {
                check(&target, &answer, errand.partial, begun)?;
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
}

/// The status of a redirection.
fn moved(answer: &Answer) -> Option<StatusCode> {
    use StatusCode as S;
    let status = answer.head()?.status();
    let moves = [S::MOVED_PERMANENTLY, S::FOUND, S::SEE_OTHER, S::TEMPORARY_REDIRECT, S::PERMANENT_REDIRECT];
    (moves.contains(&status) && answer.field(header::LOCATION).is_some()).then_some(status)
}

/// Whether an answer is what was asked for. With `begun`, only the rest after that many bytes is.
fn check(target: &Target, answer: &Answer, partial: bool, begun: u64) -> Result {
    let Some(status) = answer.head().map(http::Response::status) else { return Ok(()) };
    let failure = |what: &str| Err(Failure::new(Exit::Http, format!("{target}: {what}")));
    let content_range = answer.field(header::CONTENT_RANGE).unwrap_or_default();
    if moved(answer).is_some() {
        let to = answer.field(header::LOCATION).unwrap_or_default();
        return failure(&format!("moved to {to}; follow it with --location"));
    }
    match status {
        // Nothing is missing.
        StatusCode::RANGE_NOT_SATISFIABLE if begun > 0 && content_range == format!("bytes */{begun}") => {
            Ok(())
        }
        StatusCode::RANGE_NOT_SATISFIABLE if begun > 0 => {
            failure(&format!("{status}: {begun} bytes are here already; remove them to begin anew"))
        }
        StatusCode::PARTIAL_CONTENT
            if begun > 0 && !content_range.starts_with(&format!("bytes {begun}-")) =>
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

/// Writes a piece. A connection that has to wait for that is kept alive.
async fn pass_on(piece: Bytes, output: &mut Output, connection: &Connection, pause: Duration) -> Result {
    let mut written = pin!(output.write(piece));
    loop {
        match tokio::time::timeout(pause, &mut written).await {
            Ok(done) => return done,
            Err(_) => connection.ping(),
        }
    }
}
