//! "Multipath QUIC: Design and Evaluation" (CoNEXT 2017).
//!
//! Half of what it says compares with TCP and Multipath TCP in Linux; that half is not judged here.

use super::results::{largest, share};
use super::{Claim, Finding, Need, Paper, Results};
use crate::record::Row;
use crate::stats::median;
use crate::sweep::aggregation_benefit;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "conext17",
    title: "Multipath QUIC: Design and Evaluation (CoNEXT 2017)",
    ablations: &[],
    claims: &[Q1, Q2, Q3, Q4, Q5, Q6, Q7],
};

const NEEDS_LINUX: &str = "needs TCP and Multipath TCP of Linux as the baseline";
const TCP_HALF: &str = "the comparison with Multipath TCP needs Linux as the baseline";

const Q1: Claim = Claim {
    id: "Q1",
    shown: "Figure 3",
    text: "low BDP, no loss: QUIC is as fast as TCP on one path, and Multipath QUIC faster than Multipath TCP in 89 %",
    threshold: "median time TCP/QUIC within 0.95–1.05; Multipath QUIC faster at ≥ 80 % of the points",
    reason: "the paper's figures, with room for another stack",
    needs: &[],
    judge: |_| None,
    beyond: Some(NEEDS_LINUX),
};

const Q2: Claim = Claim {
    id: "Q2",
    shown: "Figure 4",
    text: "low BDP, no loss: using several paths pays in 77 % of the scenarios, whichever path comes first",
    threshold: "EBen > 0 at ≥ 70 % of the points; medians by first path at most 0.15 apart",
    reason: "the paper's figure less a tenth; 0.15 is a tenth of what Multipath TCP's curves are apart at most",
    needs: &[Need {
        experiment: "conext17-low-bdp-no-loss",
        variants: &["mpquic", "quic-path-0", "quic-path-1"],
    }],
    judge: |results| {
        let benefit = Benefit::of(results, "conext17-low-bdp-no-loss")?;
        Some(Finding {
            figure: benefit.to_string(),
            values: benefit.values(),
            holds: benefit.positive >= 0.7 && (benefit.best_first - benefit.worst_first).abs() <= 0.15,
        })
    },
    beyond: Some(TCP_HALF),
};

const Q3: Claim = Claim {
    id: "Q3",
    shown: "Figures 5, 6",
    text: "low BDP, losses: QUIC is nearly always faster than TCP, and using several paths pays",
    threshold: "faster at ≥ 90 % of the points; EBen > 0 at more than half",
    reason: "\"nearly always\" is read as nine of ten",
    needs: &[],
    judge: |_| None,
    beyond: Some(NEEDS_LINUX),
};

const Q4: Claim = Claim {
    id: "Q4",
    shown: "Figure 7",
    text: "high BDP, no loss: using several paths pays in 58 % of the scenarios",
    threshold: "EBen > 0 at ≥ 52 % of the points",
    reason: "the paper's figure less a tenth",
    needs: &[Need {
        experiment: "conext17-high-bdp-no-loss",
        variants: &["mpquic", "quic-path-0", "quic-path-1"],
    }],
    judge: |results| {
        let benefit = Benefit::of(results, "conext17-high-bdp-no-loss")?;
        Some(Finding {
            figure: benefit.to_string(),
            values: benefit.values(),
            holds: benefit.positive >= 0.52,
        })
    },
    beyond: Some(TCP_HALF),
};

const Q5: Claim = Claim {
    id: "Q5",
    shown: "Figure 8",
    text: "high BDP, losses: QUIC is faster than TCP, on one path and on several",
    threshold: "faster at ≥ 80 % of the points",
    reason: "the figure shows few points on the other side",
    needs: &[],
    judge: |_| None,
    beyond: Some(NEEDS_LINUX),
};

const Q6: Claim = Claim {
    id: "Q6",
    shown: "Figures 9, 10",
    text: "256 KB: QUIC is faster than TLS over TCP thanks to its handshake, and several paths hardly help",
    threshold: "several paths: median EBen ≤ 0.25, and lower when the worse path comes first",
    reason: "a quarter of what a second path could bring is hardly useful, and the figure's two curves are apart",
    needs: &[Need {
        experiment: "conext17-low-bdp-no-loss-256kb",
        variants: &["mpquic", "quic-path-0", "quic-path-1"],
    }],
    judge: |results| {
        let benefit = Benefit::of(results, "conext17-low-bdp-no-loss-256kb")?;
        Some(Finding {
            figure: benefit.to_string(),
            values: benefit.values(),
            holds: benefit.median <= 0.25 && benefit.worst_first < benefit.best_first,
        })
    },
    beyond: Some("the comparison with TLS over TCP needs Linux as the baseline"),
};

/// A request that takes longer than this, on paths with round trips of 15 and 25 ms, was held up.
const HELD_UP_S: f64 = 0.05;

const Q7: Claim = Claim {
    id: "Q7",
    shown: "Figure 11",
    text: "handover: one answer is late by about the client's timeout, and the server does not need a timeout of its own",
    threshold: "exactly one answer later than 50 ms, at most 200 ms late; without telling the server, it is later",
    reason: "a probe timeout is two to three round trips after a quiet 400 ms; a second one would double it",
    needs: &[Need { experiment: "conext17-handover", variants: &["mpquic", "mpquic-no-signal"] }],
    judge: |results| {
        let worst = |variant| {
            let rows = results.rows("conext17-handover", variant).filter(|row| row.point == 100);
            let late = |row: &Row| row.request_delays_s.iter().filter(|delay| **delay > HELD_UP_S).count();
            let delays = rows.clone().flat_map(|row| row.request_delays_s.iter().copied());
            Some((rows.clone().map(late).max()?, largest(delays)?))
        };
        let (late, told) = worst("mpquic")?;
        let (_, untold) = worst("mpquic-no-signal")?;
        Some(Finding {
            figure: format!(
                "{late} late in a run, the latest after {:.0} ms; {:.0} ms if the server is not told",
                told * 1e3,
                untold * 1e3
            ),
            values: vec![late as f64, told * 1e3, untold * 1e3],
            holds: late == 1 && told <= 0.2 && untold > told,
        })
    },
    beyond: None,
};

/// Benefit of using several paths, over the points of an experiment.
struct Benefit {
    positive: f64,
    median: f64,
    best_first: f64,
    worst_first: f64,
}

impl Benefit {
    fn of(results: &Results, experiment: &str) -> Option<Self> {
        // As the paper does, of the median times.
        let time = |variant| results.by_point(experiment, variant, |row: &Row| row.transfer_time_s);
        let [several, first, second] = [time("mpquic"), time("quic-path-0"), time("quic-path-1")];
        let (mut all, mut best_first, mut worst_first) = (Vec::new(), Vec::new(), Vec::new());
        for (point, time) in &several {
            let singles = [*first.get(point)?, *second.get(point)?];
            let eben = aggregation_benefit(*time, &singles)?;
            all.push(eben);
            if singles[0] <= singles[1] { &mut best_first } else { &mut worst_first }.push(eben);
        }
        Some(Self {
            positive: share(&all, |eben| eben > 0.0)?,
            median: median(&all)?,
            best_first: median(&best_first)?,
            worst_first: median(&worst_first)?,
        })
    }
}

impl Benefit {
    /// Returns the figures in the order in which they are shown.
    fn values(&self) -> Vec<f64> {
        vec![self.positive * 100.0, self.median, self.best_first, self.worst_first]
    }
}

impl core::fmt::Display for Benefit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { positive, median, best_first, worst_first } = self;
        write!(
            f,
            "EBen > 0 at {:.0} % of points, median {median:.2}; {best_first:.2} if the better path comes first, \
             {worst_first:.2} if the worse",
            positive * 100.0
        )
    }
}
