//! Samples of the paths over time.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{Connection, IdleReason, PathId};

/// Initial interval between two samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of samples; a longer transfer is sampled less often.
const MAX_SAMPLES: usize = 2_000;
/// Maximum number of events, reached only if paths fail again and again.
const MAX_EVENTS: usize = 200;
/// Period over which a rate is averaged.
const SMOOTHING: Duration = Duration::from_millis(400);

/// A link's path at one instant.
#[derive(Clone, Debug, Default)]
pub(super) struct PathSample {
    /// UDP payload bytes that the client has received on the path so far.
    pub(super) received: u64,
    /// Smoothed round-trip time at the server; `None` before the first sample.
    pub(super) rtt: Option<Duration>,
    /// ID of the path on which the acknowledgment of the newest round-trip time sample returned.
    pub(super) rtt_via: Option<u32>,
    /// The server's congestion window in bytes.
    pub(super) window: u64,
    /// Number of packets that the server has declared lost so far.
    pub(super) lost: u64,
    /// State of the path; `closed` while the link has no path.
    pub(super) state: &'static str,
    /// Reason why the server does not send on the path at present.
    pub(super) idle: Option<IdleReason>,
}

impl PathSample {
    /// Returns whether the path responds, as far as the server knows.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.state, "open" | "backup")
    }

    /// Returns the round-trip time in milliseconds, for charts; 0 before the first sample.
    pub(super) fn rtt_ms(&self) -> f64 {
        self.rtt.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3)
    }

    /// Formats the round-trip time, and the path on which the acknowledgment of its newest sample returned.
    pub(super) fn rtt_words(&self) -> String {
        match (self.rtt, self.rtt_via) {
            (Some(rtt), Some(via)) => format!("{:.1} ms (via path {via})", rtt.as_secs_f64() * 1e3),
            _ => "–".to_owned(),
        }
    }
}

/// All paths at one instant.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Time since the start of the transfer.
    pub(super) at: Duration,
    /// Bytes of content that the application has received.
    pub(super) bytes: u64,
    /// State by link.
    pub(super) paths: Vec<PathSample>,
}

/// An event of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at: Duration,
    /// Index of the link.
    pub(super) path: usize,
    pub(super) what: String,
}

/// History of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    interval: Duration,
    pub(super) samples: Vec<Sample>,
    pub(super) events: Vec<Event>,
}

/// Periodic observer of both ends of a connection.
pub(super) struct Sampler {
    client: Connection,
    server: Connection,
    /// Server's address on each link.
    addresses: Vec<SocketAddr>,
    /// All paths so far, in the order of their IDs, each with its link and its last state.
    known: Vec<(PathId, usize, PathSample)>,
}

impl Sampler {
    pub(super) fn new(client: Connection, server: Connection, addresses: Vec<SocketAddr>) -> Self {
        Self { client, server, addresses, known: Vec::new() }
    }

    /// Returns the current paths by link.
    pub(super) fn look(&mut self) -> Vec<PathSample> {
        self.known.iter_mut().for_each(|(.., path)| path.state = CLOSED);
        for path in self.client.paths() {
            let Some(link) = self.addresses.iter().position(|address| *address == path.tuple.remote) else {
                continue;
            };
            let known = entry(&mut self.known, path.id, link);
            (known.received, known.state) = (path.bytes_received, path.state.name());
        }
        for path in self.server.paths() {
            let Some((.., known)) = self.known.iter_mut().find(|(id, ..)| *id == path.id) else { continue };
            (known.rtt, known.window) = (path.rtt_via.map(|_| path.smoothed_rtt), path.window);
            known.rtt_via = path.rtt_via.map(|via| via.0);
            (known.lost, known.idle) = (path.recovery.lost_packets, path.idle);
            known.state = path.state.name();
        }
        (0..self.addresses.len()).map(|link| self.on(link)).collect()
    }

    /// Returns the newest path on a link, with counters that include earlier paths on the link.
    fn on(&self, link: usize) -> PathSample {
        let mut all = PathSample { state: CLOSED, ..PathSample::default() };
        for (.., path) in self.known.iter().filter(|(_, its, _)| *its == link) {
            let (received, lost) = (all.received + path.received, all.lost + path.lost);
            all = PathSample { received, lost, ..path.clone() };
        }
        all
    }
}

/// State of a link without a path.
pub(super) const CLOSED: &str = "closed";

fn entry(known: &mut Vec<(PathId, usize, PathSample)>, id: PathId, link: usize) -> &mut PathSample {
    let index = known.binary_search_by_key(&id, |(id, ..)| *id).unwrap_or_else(|index| {
        known.insert(index, (id, link, PathSample::default()));
        index
    });
    &mut known[index].2
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self { interval: INTERVAL, samples: Vec::new(), events: Vec::new() }
    }

    /// Returns whether another sample is due.
    pub(super) fn is_due(&self, at: Duration) -> bool {
        self.samples.last().is_none_or(|last| at >= last.at + self.interval)
    }

    /// Adds a sample, and the events that it implies.
    pub(super) fn add(&mut self, sample: Sample) {
        for (path, now) in sample.paths.iter().enumerate() {
            let before = self.samples.last().map_or(CLOSED, |last| last.paths[path].state);
            if before != now.state {
                self.tell(Event { at: sample.at, path, what: now.state.to_owned() });
            }
        }
        if self.samples.len() >= MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.samples.push(sample);
    }

    /// Adds an event.
    pub(super) fn tell(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        }
    }

    /// Returns the rate of `bytes` at sample `index`, in bits per second.
    pub(super) fn rate(&self, index: usize, bytes: impl Fn(&Sample) -> u64) -> f64 {
        let Some(now) = self.samples.get(index) else { return 0.0 };
        let from = now.at.saturating_sub(SMOOTHING);
        let first = self.samples[..index].partition_point(|sample| sample.at < from);
        let then = &self.samples[first];
        let (bytes, took) = (bytes(now).saturating_sub(bytes(then)), now.at - then.at);
        if took.is_zero() { 0.0 } else { bytes as f64 * 8.0 / took.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, bytes: u64, state: &'static str) -> Sample {
        let path = PathSample { received: bytes, state, ..PathSample::default() };
        Sample { at: Duration::from_millis(ms), bytes, paths: vec![path] }
    }

    #[test]
    fn rates_are_averages_of_the_last_moments() {
        let mut timeline = Timeline::new();
        // 1 Mbit/s for a second, then nothing.
        for ms in (0..=2_000).step_by(20) {
            timeline.add(sample(ms, ms.min(1_000) * 125, "open"));
        }
        let rate = |ms: usize| timeline.rate(ms / 20, |sample| sample.bytes);
        assert_eq!((rate(0), rate(100), rate(1_000)), (0.0, 1e6, 1e6));
        assert_eq!((rate(1_200), rate(1_400), rate(2_000), rate(9_999)), (5e5, 0.0, 0.0, 0.0));
    }

    #[test]
    fn states_become_events_when_they_change() {
        let mut timeline = Timeline::new();
        for (ms, state) in [(0, CLOSED), (20, "opening"), (40, "open"), (60, "open"), (80, "failing")] {
            timeline.add(sample(ms, 0, state));
        }
        let told: Vec<_> =
            timeline.events.iter().map(|event| (event.at.as_millis(), event.what.as_str())).collect();
        assert_eq!(told, [(20, "opening"), (40, "open"), (80, "failing")]);
    }

    #[test]
    fn samples_and_events_are_bounded() {
        let mut timeline = Timeline::new();
        let mut taken = 0;
        for ms in 0..200_000 {
            if timeline.is_due(Duration::from_millis(ms)) {
                timeline.add(sample(ms, ms, if taken % 2 == 0 { "open" } else { "failing" }));
                taken += 1;
            }
        }
        assert!(timeline.samples.len() <= MAX_SAMPLES && taken > MAX_SAMPLES);
        assert_eq!(timeline.events.len(), MAX_EVENTS);
        assert!(timeline.samples.windows(2).all(|two| two[0].at < two[1].at));
    }
}
