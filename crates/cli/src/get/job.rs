//! Jobs: a URL with its destination, and the outcome.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::Digest;
use http::StatusCode;
use serde_json::json;

use super::origin::Origin;
use crate::events::{self, Events};
use crate::exit::Result;
use crate::output::Destination;
use crate::target::Target;

/// A file to fetch.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// URL as on the command line.
    pub(super) url: String,
    pub(super) target: Target,
    pub(super) destination: Destination,
}

impl Job {
    /// Emits the event of the job's end.
    pub(super) fn write_end(&self, done: &Result<Done>, events: &Events) {
        match done {
            Ok(done) => events.tell("file_done", || {
                json!({
                    "url": self.url,
                    "connection": events::id(done.origin.connection()),
                    "bytes": done.bytes,
                    "seconds": done.took.as_secs_f64(),
                    "continued": done.continued,
                })
            }),
            Err(failure) => events.tell(
                "file_failed",
                || json!({ "url": self.url, "error": failure.to_string(), "exit": failure.exit() as u8 }),
            ),
        }
    }
}

/// A fetched file.
pub(super) struct Done {
    pub(super) bytes: u64,
    pub(super) took: Duration,
    pub(super) digest: Option<Digest>,
    pub(super) status: Option<StatusCode>,
    pub(super) early_data: bool,
    /// Number of times that the download continued after a failure.
    pub(super) continued: u32,
    pub(super) origin: Arc<Origin>,
}
