//! Claims of "Multipath QUIC: Design and Evaluation" (CoNEXT 2017).
//!
//! Half of the claims compare QUIC with HTTPS over Linux's TCP and Multipath TCP. These comparisons are
//! judged only if the results contain runs of Linux (`anabranch lab linux`).

use super::results::{largest, share};
use super::{Ablation, Claim, Finding, Need, Paper, Results};
use crate::record::Row;
use crate::stats::median;
use crate::sweep::aggregation_benefit;

/// The paper with its claims.
pub(super) const PAPER: Paper = Paper {
    name: "conext17",
    title: "Multipath QUIC: Design and Evaluation (CoNEXT 2017)",
    ablations: ABLATIONS,
    claims: &[Q1, Q2, Q3, Q4, Q5, Q6, Q7],
    further,
};

/// Settings in which the profiles of 2017 may differ from the stack of the study, and controllers that couple
/// several paths. Each ablation changes one setting. Runs of Linux are never changed.
const ABLATIONS: &[Ablation] = &[
    Ablation { name: "mpquic-cubic", of: "mpquic", set: "congestion = \"cubic\"" },
    Ablation { name: "mpquic-newreno", of: "mpquic", set: "congestion = \"newreno\"" },
    Ablation { name: "mpquic-lia", of: "mpquic", set: "congestion = \"lia\"" },
    Ablation { name: "mpquic-balia", of: "mpquic", set: "congestion = \"balia\"" },
    Ablation { name: "quic-cubic-2017", of: "quic-path", set: "congestion = \"cubic-2017\"" },
    Ablation { name: "cubic-2017", of: "", set: "congestion = \"cubic-2017\"" },
    Ablation { name: "bbr", of: "", set: "congestion = \"bbr\"" },
    Ablation { name: "no-pacing", of: "", set: "pacing = false" },
    Ablation { name: "no-ack-frequency", of: "", set: "ack_frequency = false" },
    Ablation { name: "initial-window-32", of: "", set: "initial_window_packets = 32" },
];

const LOW: &str = "conext17-low-bdp-no-loss";
const LOW_LOSSES: &str = "conext17-low-bdp-losses";
const HIGH: &str = "conext17-high-bdp-no-loss";
const HIGH_LOSSES: &str = "conext17-high-bdp-losses";
const SHORT: &str = "conext17-low-bdp-no-loss-256kb";
const HANDOVER: &str = "conext17-handover";
/// Variant of Multipath TCP in the runs of the handover.
const HANDOVER_TCP: &str = "linux-mptcp-tls12";

/// Compared variants: QUIC, and HTTPS over TCP with TLS 1.2 as in the paper. Each list has the variant on
/// both paths, then the variants on the first and the second path alone.
const QUIC: &[&str] = &["mpquic", "quic-path-0", "quic-path-1"];
const TCP: &[&str] = &["linux-mptcp-tls12", "linux-tcp-cubic-path-0-tls12", "linux-tcp-cubic-path-1-tls12"];

const TCP_HALF: &str =
    "the comparison with TCP and Multipath TCP needs runs of Linux (`anabranch lab linux build`)";

const Q1: Claim = Claim {
    id: "Q1",
    shown: "Figure 3",
    text: "low BDP, no loss: QUIC is as fast as TCP on one path, and Multipath QUIC faster than Multipath TCP in 89 %",
    threshold: "median time TCP/QUIC within 0.95–1.05; Multipath QUIC faster at ≥ 80 % of the points",
    reason: "the paper's figures, with room for another stack",
    needs: &[Need { experiment: LOW, variants: QUIC }, Need { experiment: LOW, variants: TCP }],
    judge: |results| {
        let faster = Faster::of(results, LOW)?;
        Some(Finding {
            figure: faster.to_string(),
            values: faster.values(),
            holds: (0.95..=1.05).contains(&faster.median_single) && faster.several >= 0.8,
        })
    },
    beyond: None,
};

const Q2: Claim = Claim {
    id: "Q2",
    shown: "Figure 4",
    text: "low BDP, no loss: using several paths pays in 77 % of the scenarios, whichever path comes first",
    threshold: "EBen > 0 at ≥ 70 % of the points; medians by first path at most 0.15 apart; with Multipath TCP EBen > 0 \
                at fewer points",
    reason: "the paper's figure less a tenth; 0.15 is a tenth of what Multipath TCP's curves are apart at most",
    needs: &[Need { experiment: LOW, variants: QUIC }],
    judge: |results| {
        let [quic, tcp] = benefits(results, LOW);
        let quic = quic?;
        let alike = (quic.best_first - quic.worst_first).abs() <= 0.15;
        Some(beside_tcp(&quic, tcp.as_ref(), quic.positive >= 0.7 && alike))
    },
    beyond: Some(TCP_HALF),
};

const Q3: Claim = Claim {
    id: "Q3",
    shown: "Figures 5, 6",
    text: "low BDP, losses: QUIC is nearly always faster than TCP, and using several paths pays",
    threshold: "faster at ≥ 90 % of the points; EBen > 0 at more than half",
    reason: "\"nearly always\" is read as nine of ten",
    needs: &[Need { experiment: LOW_LOSSES, variants: QUIC }, Need { experiment: LOW_LOSSES, variants: TCP }],
    judge: |results| {
        let faster = Faster::of(results, LOW_LOSSES)?;
        let [quic, _] = benefits(results, LOW_LOSSES);
        let quic = quic?;
        Some(Finding {
            figure: format!("{faster}; {quic}"),
            values: [faster.values(), quic.values()].concat(),
            holds: faster.single >= 0.9 && faster.several >= 0.9 && quic.positive > 0.5,
        })
    },
    beyond: None,
};

const Q4: Claim = Claim {
    id: "Q4",
    shown: "Figure 7",
    text: "high BDP, no loss: using several paths pays in 58 % of the scenarios",
    threshold: "EBen > 0 at ≥ 52 % of the points; with Multipath TCP at fewer points",
    reason: "the paper's figure less a tenth",
    needs: &[Need { experiment: HIGH, variants: QUIC }],
    judge: |results| {
        let [quic, tcp] = benefits(results, HIGH);
        let quic = quic?;
        Some(beside_tcp(&quic, tcp.as_ref(), quic.positive >= 0.52))
    },
    beyond: Some(TCP_HALF),
};

const Q5: Claim = Claim {
    id: "Q5",
    shown: "Figure 8",
    text: "high BDP, losses: QUIC is faster than TCP, on one path and on several",
    threshold: "faster at ≥ 80 % of the points",
    reason: "the figure shows few points on the other side",
    needs: &[
        Need { experiment: HIGH_LOSSES, variants: QUIC },
        Need { experiment: HIGH_LOSSES, variants: TCP },
    ],
    judge: |results| {
        let faster = Faster::of(results, HIGH_LOSSES)?;
        Some(Finding {
            figure: faster.to_string(),
            values: faster.values(),
            holds: faster.single >= 0.8 && faster.several >= 0.8,
        })
    },
    beyond: None,
};

const Q6: Claim = Claim {
    id: "Q6",
    shown: "Figures 9, 10",
    text: "256 KB: QUIC is faster than TLS over TCP thanks to its handshake, and several paths hardly help",
    threshold: "several paths: median EBen ≤ 0.25, and lower when the worse path comes first; QUIC faster than TLS 1.2 over \
                TCP at ≥ 90 % of the points",
    reason: "a quarter of what a second path could bring is hardly useful, and the figure's two curves are apart",
    needs: &[Need { experiment: SHORT, variants: QUIC }],
    judge: |results| {
        let [quic, _] = benefits(results, SHORT);
        let quic = quic?;
        let hardly = quic.median <= 0.25 && quic.worst_first < quic.best_first;
        let Some(faster) = Faster::of(results, SHORT) else {
            return Some(Finding { figure: quic.to_string(), values: quic.values(), holds: hardly });
        };
        Some(Finding {
            figure: format!("{quic}; {faster}"),
            values: [quic.values(), faster.values()].concat(),
            holds: hardly && faster.single >= 0.9,
        })
    },
    beyond: Some(TCP_HALF),
};

/// Returns the additional runs for the part of the claim that is about TCP.
fn further(id: &str) -> &'static [Need] {
    match id {
        "Q2" => &[Need { experiment: LOW, variants: TCP }],
        "Q4" => &[Need { experiment: HIGH, variants: TCP }],
        "Q6" => &[Need { experiment: SHORT, variants: TCP }],
        "Q7" => &[Need { experiment: HANDOVER, variants: &[HANDOVER_TCP] }],
        _ => &[],
    }
}

/// Delay in seconds above which an answer counts as late, on paths with round trips of 15 and 25 ms.
const HELD_UP_S: f64 = 0.05;

const Q7: Claim = Claim {
    id: "Q7",
    shown: "Figure 11",
    text: "handover: one answer is late by about the client's timeout, and the server does not need a timeout of its own",
    threshold: "exactly one answer later than 50 ms, at most 200 ms late; without telling the server, it is later",
    reason: "a probe timeout is two to three round trips after a quiet 400 ms; a second one would double it",
    needs: &[Need { experiment: HANDOVER, variants: &["mpquic", "mpquic-no-signal"] }],
    judge: |results| {
        let worst = |variant| {
            let rows = results.rows(HANDOVER, variant).filter(|row| row.point == 100);
            let late = |row: &Row| row.request_delays_s.iter().filter(|delay| **delay > HELD_UP_S).count();
            let delays = rows.clone().flat_map(|row| row.request_delays_s.iter().copied());
            Some((rows.clone().map(late).max()?, largest(delays)?))
        };
        let (late, told) = worst("mpquic")?;
        let (_, untold) = worst("mpquic-no-signal")?;
        // The paper's figure shows only QUIC. The numbers of Multipath TCP are reported, but do not affect
        // the verdict.
        let tcp = worst(HANDOVER_TCP).map(|(late, worst)| {
            format!("; Multipath TCP: {late} late, the latest after {:.0} ms", worst * 1e3)
        });
        Some(Finding {
            figure: format!(
                "{late} late in a run, the latest after {:.0} ms; {:.0} ms if the server is not told{}",
                told * 1e3,
                untold * 1e3,
                tcp.unwrap_or_default()
            ),
            values: vec![late as f64, told * 1e3, untold * 1e3],
            holds: late == 1 && told <= 0.2 && untold > told,
        })
    },
    beyond: None,
};

/// Experimental aggregation benefit (EBen) of several paths, over the points of an experiment.
struct Benefit {
    positive: f64,
    median: f64,
    best_first: f64,
    worst_first: f64,
}

impl Benefit {
    /// Computes the benefit. `variants` names the variant on several paths, then the variants on the first
    /// path alone and on the second path alone.
    fn of(results: &Results, experiment: &str, variants: &[&str]) -> Option<Self> {
        // The benefit is computed from median times, as in the paper.
        let time = |variant: &&str| results.by_point(experiment, variant, |row: &Row| row.transfer_time_s);
        let [several, first, second] = &variants.iter().map(time).collect::<Vec<_>>()[..] else {
            return None;
        };
        let (mut all, mut best_first, mut worst_first) = (Vec::new(), Vec::new(), Vec::new());
        for (point, time) in several {
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
    /// Returns the numbers in the order in which they are displayed.
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

/// Returns the benefit with Multipath QUIC, and that with Multipath TCP if there are runs of Linux.
fn benefits(results: &Results, experiment: &str) -> [Option<Benefit>; 2] {
    [QUIC, TCP].map(|variants| Benefit::of(results, experiment, variants))
}

/// Returns the finding about the benefit of several paths with QUIC. If the benefit with TCP is known, the
/// claim holds only if QUIC's benefit is also positive at more points than TCP's.
fn beside_tcp(quic: &Benefit, tcp: Option<&Benefit>, holds: bool) -> Finding {
    match tcp {
        None => Finding { figure: quic.to_string(), values: quic.values(), holds },
        Some(tcp) => {
            let figure = format!("{quic}; Multipath TCP: {tcp}");
            let values = [quic.values(), tcp.values()].concat();
            Finding { figure, values, holds: holds && tcp.positive < quic.positive }
        }
    }
}

/// Comparison of times with TCP and with QUIC, over the points of an experiment.
struct Faster {
    /// Share of points at which QUIC is faster than TCP, both on the first path alone.
    single: f64,
    /// Share of points at which Multipath QUIC is faster than Multipath TCP.
    several: f64,
    /// Median ratio of TCP's time to QUIC's, on the first path alone.
    median_single: f64,
    median_several: f64,
}

impl Faster {
    fn of(results: &Results, experiment: &str) -> Option<Self> {
        let ratios = |over| -> Vec<f64> {
            results.ratios(experiment, over, |row: &Row| row.transfer_time_s).into_values().collect()
        };
        let (single, several) = (ratios([TCP[1], QUIC[1]]), ratios([TCP[0], QUIC[0]]));
        Some(Self {
            single: share(&single, |ratio| ratio > 1.0)?,
            several: share(&several, |ratio| ratio > 1.0)?,
            median_single: median(&single)?,
            median_several: median(&several)?,
        })
    }
}

impl Faster {
    /// Returns the numbers in the order in which they are displayed.
    fn values(&self) -> Vec<f64> {
        vec![self.single * 100.0, self.median_single, self.several * 100.0, self.median_several]
    }
}

impl core::fmt::Display for Faster {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { single, several, median_single, median_several } = self;
        write!(
            f,
            "QUIC faster at {:.0} % of points (median TCP/QUIC {median_single:.2}), Multipath QUIC at {:.0} % \
             ({median_several:.2})",
            single * 100.0,
            several * 100.0
        )
    }
}
