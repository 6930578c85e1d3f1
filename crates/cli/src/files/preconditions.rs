//! Validators, and conditional requests (RFC 9110 §8.8, §13).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use headers::{ETag, HeaderMapExt, IfMatch, IfModifiedSince, IfNoneMatch, IfUnmodifiedSince, LastModified};
use http::HeaderMap;
use http::header::IF_RANGE;

/// Validators that distinguish versions of a file.
#[derive(Clone, Debug)]
pub(super) struct Validators {
    /// Strong entity tag, made of the file's length and its modification time in nanoseconds.
    etag: ETag,
    modified: SystemTime,
}

/// Outcome of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

impl Validators {
    pub(super) fn of(file: &Metadata, now: SystemTime) -> Option<Self> {
        let tag = format!("\"{:x}-{:x}-{:x}\"", file.len(), file.mtime(), file.mtime_nsec());
        let modified = file.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // Dates in header fields begin in 1970 and must not lie in the future (§8.8.2.1).
        let modified = whole_seconds(modified.clamp(SystemTime::UNIX_EPOCH, now.max(SystemTime::UNIX_EPOCH)));
        Some(Self { etag: tag.parse().ok()?, modified })
    }

    /// Adds the validators to a response's header.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        headers.typed_insert(self.etag.clone());
        headers.typed_insert(LastModified::from(self.modified));
    }

    /// Evaluates preconditions in their order of precedence (§13.2.2). Invalid fields are ignored.
    pub(super) fn judge(&self, headers: &HeaderMap) -> Verdict {
        let kept = match headers.typed_get::<IfMatch>() {
            Some(wanted) => wanted.precondition_passes(&self.etag),
            None => headers
                .typed_get::<IfUnmodifiedSince>()
                .is_none_or(|since| since.precondition_passes(self.modified)),
        };
        if !kept {
            return Verdict::Failed;
        }
        let changed = match headers.typed_get::<IfNoneMatch>() {
            Some(known) => known.precondition_passes(&self.etag),
            None => {
                headers.typed_get::<IfModifiedSince>().is_none_or(|since| since.is_modified(self.modified))
            }
        };
        if changed { Verdict::Proceed } else { Verdict::NotModified }
    }

    /// Returns whether the file is the version that If-Range names (§13.1.5). Its entity tag or its date must
    /// be exactly equal.
    pub(super) fn allow_range(&self, headers: &HeaderMap) -> bool {
        let Some(known) = headers.get(IF_RANGE) else { return true };
        let Ok(known) = known.to_str() else { return false };
        match known.parse::<ETag>() {
            // A weak tag never matches here.
            Ok(known) => known == self.etag,
            Err(_) => httpdate::parse_http_date(known).is_ok_and(|known| known == self.modified),
        }
    }
}

/// Removes fractions of a second, which dates in header fields cannot express.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests;
