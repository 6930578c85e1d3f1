//! Bytes received in order: their number, their integrity, and the application's longest wait.

use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, Digest, SHA256};

use super::source::DIGEST;

/// Maximum time between a failure and the beginning of a wait that is attributed to it.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Receiving state of a stream that ends with the digest of its content.
pub(super) struct Arrivals {
    /// Number of content bytes that are still to be received.
    left: u64,
    digest: Context,
    theirs: Vec<u8>,
    waits: Vec<Wait>,
}

/// The longest wait for new bytes around a failure.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Time at which the path fails.
    failure: Instant,
    /// Time at which bytes were last received.
    last: Instant,
    longest: Option<Duration>,
}

/// Content received on a stream.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// SHA-256 of the received content.
    pub(super) digest: Digest,
    /// `true` if the digest is the sender's, and the content is complete.
    pub(super) matches: bool,
    /// For each failure, the longest wait for new bytes that it may have caused; `None` if the transfer had
    /// ended before.
    pub(super) gaps: Vec<Option<Duration>>,
}

impl Arrivals {
    /// Creates the state of a stream of `len` bytes and their digest, which begins at `begin`. Paths fail at
    /// the times `failures`, all of them after `begin`.
    pub(super) fn new(len: u64, begin: Instant, failures: impl IntoIterator<Item = Instant>) -> Self {
        let wait = |failure| Wait { failure, last: begin, longest: None };
        Self {
            left: len,
            digest: Context::new(&SHA256),
            theirs: Vec::with_capacity(DIGEST),
            waits: failures.into_iter().map(wait).collect(),
        }
    }

    /// Adds bytes that arrived at `now`. Returns how many of them are content.
    pub(super) fn take(&mut self, now: Instant, bytes: &[u8]) -> u64 {
        let data = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.digest.update(&bytes[..data]);
        let room = (DIGEST + 1).saturating_sub(self.theirs.len());
        self.theirs.extend(bytes[data..].iter().take(room));
        self.left -= data as u64;
        self.waits.iter_mut().for_each(|wait| wait.came(now));
        data as u64
    }

    /// Ends the stream and returns its result.
    pub(super) fn finish(self) -> Received {
        let digest = self.digest.finish();
        let matches = self.left == 0 && self.theirs == digest.as_ref();
        Received { digest, matches, gaps: self.waits.iter().map(|wait| wait.longest).collect() }
    }
}

impl Wait {
    fn came(&mut self, now: Instant) {
        if now >= self.failure && self.last <= self.failure + AFTERMATH {
            self.longest = self.longest.max(Some(now - self.last));
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::digest;

    use super::*;

    #[test]
    fn only_everything_and_nothing_else_matches() {
        let data = b"all of it";
        let whole = [&data[..], digest(&SHA256, data).as_ref()].concat();
        let matches = |bytes: &[u8], step: usize| {
            let now = Instant::now();
            let mut arrivals = Arrivals::new(data.len() as u64, now, []);
            let counted: u64 = bytes.chunks(step).map(|piece| arrivals.take(now, piece)).sum();
            assert_eq!(counted, data.len().min(bytes.len()) as u64);
            arrivals.finish().matches
        };
        assert!(matches(&whole, 1) && matches(&whole, 7) && matches(&whole, 100));
        let mut other = whole.clone();
        other[3] ^= 1;
        let longer = [&whole[..], b"!"].concat();
        for wrong in [&whole[..whole.len() - 1], &whole[..5], &other, &longer, b""] {
            assert!(!matches(wrong, 4), "{wrong:?}");
        }
    }

    #[test]
    fn gaps_are_waits_that_a_failure_can_have_caused() {
        let begin = Instant::now();
        let ms = |ms| begin + Duration::from_millis(ms);
        let gaps = |failures: &[u64], arrivals: &[u64]| {
            let mut taken = Arrivals::new(100, begin, failures.iter().map(|at| ms(*at)));
            arrivals.iter().for_each(|at| _ = taken.take(ms(*at), b"x"));
            let gaps = taken.finish().gaps;
            gaps.iter().map(|gap| gap.map(|gap| gap.as_millis())).collect::<Vec<_>>()
        };
        // A wait counts if the failure falls into it or if it begins soon after the failure. Waits that end
        // before the failure or begin later do not count.
        assert_eq!(gaps(&[1_000], &[500, 990, 1_080, 1_090]), [Some(90)]);
        assert_eq!(gaps(&[1_000], &[990, 1_010, 1_900, 2_500, 9_999]), [Some(890)]);
        assert_eq!(gaps(&[1_000], &[700, 999, 1_001, 1_002]), [Some(2)]);
        assert_eq!(gaps(&[1_000, 3_000], &[900, 1_100, 2_050, 3_200]), [Some(950), Some(1_150)]);
        assert_eq!(gaps(&[1_000], &[900, 999]), [None]);
    }
}
