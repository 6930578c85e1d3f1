//! Results of the demo, as text for people and as JSON for scripts.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::links::{Fail, Plan};
use super::timeline::{CLOSED, PathSample};
use super::transfer::Outcome;
use crate::output::hex;
use crate::table::table;

/// All results of a run.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) plan: Plan,
    pub(super) fails: Vec<Fail>,
    pub(super) settings: Settings,
    /// Bytes of content.
    pub(super) size: u64,
    /// Rate of each link alone, in bits per second.
    pub(super) alone: Vec<f64>,
    pub(super) outcome: Outcome,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) scheduler: &'static str,
    pub(super) congestion: &'static str,
    pub(super) numbering: &'static str,
}

impl Summary {
    pub(super) fn seconds(&self) -> f64 {
        self.outcome.took.as_secs_f64().max(1e-9)
    }

    /// Returns the goodput: bits of content per second.
    pub(super) fn goodput(&self) -> f64 {
        self.size as f64 * 8.0 / self.seconds()
    }

    /// Returns the rate of the best link alone, in bits per second.
    pub(super) fn best_alone(&self) -> f64 {
        self.alone.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the longest wait for new bytes that a failure may have caused; `None` if no path failed.
    pub(super) fn gap(&self) -> Option<Duration> {
        self.outcome.received.gaps.iter().flatten().max().copied()
    }

    /// Returns the rate received on a link's paths, in bits per second of UDP payload.
    pub(super) fn carried(&self, link: usize) -> f64 {
        let received = self.outcome.timeline.samples.last().map_or(0, |last| last.paths[link].received);
        received as f64 * 8.0 / self.seconds()
    }

    pub(super) fn json(&self) -> Value {
        let paths = self.plan.0.iter().enumerate().filter_map(|(index, link)| {
            let path = self.outcome.timeline.samples.last()?.paths.get(index)?;
            Some(json!({
                "path": index,
                "link": link.text,
                "link_mbps": link.rate as f64 / 1e6,
                "alone_mbps": self.alone[index] / 1e6,
                "bytes": path.received,
                "mbps": self.carried(index) / 1e6,
                "rtt_ms": path.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                "rtt_via": path.rtt_via,
                "window": path.window,
                "lost_packets": path.lost,
                "state": path.state,
                "idle": path.idle.map(|idle| idle.name()),
                "error": self.outcome.refusals.get(index).cloned().flatten(),
            }))
        });
        json!({
            "seconds": self.seconds(),
            "bytes": self.size,
            "goodput_mbps": self.goodput() / 1e6,
            "best_single_mbps": self.best_alone() / 1e6,
            "sum_of_links_mbps": self.plan.rate() as f64 / 1e6,
            "failover_gap_ms": self.gap().map(|gap| gap.as_secs_f64() * 1e3),
            "sha256": hex(&self.outcome.received.digest),
            "sha256_ok": self.outcome.received.matches,
            "scheduler": self.settings.scheduler,
            "congestion": self.settings.congestion,
            "numbering": self.settings.numbering,
            "paths": paths.collect::<Vec<_>>(),
        })
    }

    /// Returns the table, followed by the findings.
    pub(super) fn text(&self) -> String {
        let last = self.outcome.timeline.samples.last();
        let paths = self.plan.0.iter().enumerate().filter_map(|(index, link)| {
            let path = last?.paths.get(index)?;
            let refusal = self.outcome.refusals.get(index).cloned().flatten();
            Some(vec![
                index.to_string(),
                link.text.clone(),
                mbps(self.alone[index]),
                mbps(self.carried(index)),
                path.rtt_words(),
                format!("{} kB", path.window / 1000),
                path.lost.to_string(),
                state(path, refusal),
            ])
        });
        let rates = [self.plan.rate() as f64, self.best_alone(), self.goodput()].map(mbps);
        let total = vec!["total".to_owned()].into_iter().chain(rates).collect();
        let header = ["path", "link", "alone", "together", "RTT", "window", "lost", "state"];
        let mut text = table(&header, &[0, 1, 7], paths.chain([total]));
        text.push('\n');
        text.push('\n');
        for (name, value) in self.findings() {
            let _ = writeln!(text, "{name:<14}{value}");
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Returns the findings, each with a name and a sentence.
    pub(super) fn findings(&self) -> Vec<(&'static str, String)> {
        let total = self.goodput();
        let (links, best) = (self.plan.rate() as f64, self.best_alone().max(1.0));
        let mut findings = vec![
            ("transfer", format!("{:.1} MB in {:.2} s", self.size as f64 / 1e6, self.seconds())),
            (
                "goodput",
                format!(
                    "{}: {:.2} × the best single path, {:.0} % of the links' sum",
                    mbps(total),
                    total / best,
                    100.0 * total / links
                ),
            ),
        ];
        for (fail, gap) in self.fails.iter().zip(&self.outcome.received.gaps) {
            let what = match gap {
                Some(gap) => format!("{:.0} ms without new bytes ({fail})", gap.as_secs_f64() * 1e3),
                None => format!("none: the transfer was over before ({fail})"),
            };
            findings.push(("failover gap", what));
        }
        let received = &self.outcome.received;
        let verdict = if received.matches { "matches" } else { "DOES NOT MATCH" };
        findings.push(("SHA-256", format!("{}… {verdict}", &hex(&received.digest)[..16])));
        findings
    }
}

/// Formats a rate for people.
pub(super) fn mbps(rate: f64) -> String {
    format!("{:.1} Mbit/s", rate / 1e6)
}

/// Describes the state of a path, with the reason if the server does not send on it.
fn state(path: &PathSample, refusal: Option<String>) -> String {
    let why = refusal.or_else(|| path.idle.filter(|_| path.state != CLOSED).map(|idle| idle.to_string()));
    why.map_or_else(|| path.state.to_owned(), |why| format!("{}: {why}", path.state))
}

#[cfg(test)]
mod tests {
    use anabranch::IdleReason;

    use super::*;

    #[test]
    fn the_table_says_why_a_path_is_idle() {
        let path = |state, idle| PathSample { state, idle, ..PathSample::default() };
        let failing = path("failing", Some(IdleReason::PotentiallyFailed));
        assert_eq!(state(&failing, None), "failing: potentially failed");
        assert_eq!(state(&path("open", None), None), "open");
        assert_eq!(state(&path(CLOSED, Some(IdleReason::Scheduler)), None), CLOSED);
        assert_eq!(state(&path(CLOSED, None), Some("no route".to_owned())), "closed: no route");
    }
}
