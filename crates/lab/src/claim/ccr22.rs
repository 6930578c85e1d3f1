//! Claims of "The Packet Number Space Debate in Multipath QUIC" (CCR 2022).
//!
//! Some statements of the paper have no number. In these, "close" means that medians differ by at most 5 %.
//! "Slower" or "more" means that they differ by at least 2 %. The simulation is deterministic, so smaller
//! differences can be measured, but they would not be visible in a figure.

use std::collections::BTreeMap;

use super::results::{largest, share};
use super::{Ablation, Claim, Finding, Metric, Need, Paper, Results};
use crate::record::Row;
use crate::stats::median;

/// The paper with its claims and ablations.
pub(super) const PAPER: Paper = Paper {
    name: "ccr22",
    title: "The Packet Number Space Debate in Multipath QUIC (CCR 2022)",
    ablations: ABLATIONS,
    claims: &[D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13, D14, D15],
    further: |_| &[],
};

/// Settings in which the profiles of 2022 differ from this library's defaults, or may differ from the stack
/// of the study. Each ablation changes one of them.
const ABLATIONS: &[Ablation] = &[
    Ablation { name: "skipped-numbers", of: "", set: "skip_packet_numbers = true" },
    Ablation { name: "ack-scope-path", of: "", set: "ack_scope = \"path\"" },
    Ablation { name: "ack-scope-every-path", of: "", set: "ack_scope = \"every-path\"" },
    Ablation { name: "ack-path-in-turn", of: "", set: "ack_path = \"in-turn\"" },
    Ablation { name: "ack-path-fastest", of: "", set: "ack_path = \"fastest\"" },
    Ablation { name: "ack-path-fastest-and-all", of: "", set: "ack_path = \"fastest-and-all\"" },
    Ablation { name: "ack-path-same", of: "", set: "ack_path = \"same\"" },
    Ablation { name: "no-ack-frequency", of: "", set: "ack_frequency = false" },
    Ablation { name: "frequency-adaptive", of: "", set: "ack_frequency_rule = \"adaptive\"" },
    Ablation { name: "range-repeats-5", of: "", set: "range_repeats = 5" },
    Ablation { name: "loss-delay-rfc", of: "", set: "loss_delay = \"rfc9002\"" },
    Ablation { name: "loss-scan-path", of: "", set: "loss_scan = \"path\"" },
    Ablation { name: "round-trips-by-path", of: "", set: "mixed_round_trips = false" },
    Ablation { name: "cubic-rfc9438", of: "cubic", set: "congestion = \"cubic\"" },
    Ablation { name: "cubic-strict", of: "cubic", set: "congestion = \"cubic-2022-strict\"" },
    Ablation { name: "bbr1-blind", of: "bbr1", set: "congestion = \"bbr1-blind\"" },
    Ablation { name: "bbr1-policed", of: "bbr1", set: "congestion = \"bbr1-policed\"" },
    Ablation { name: "bbr3", of: "bbr1", set: "congestion = \"bbr\"" },
    Ablation { name: "no-pacing", of: "", set: "pacing = false" },
    Ablation { name: "scheduler-min-rtt", of: "", set: "scheduler = \"min-rtt\"" },
];

const HOMOGENEOUS: &str = "ccr22-homogeneous-2path";
const TWO: &str = "ccr22-heterogeneous-2path";
const THREE: &str = "ccr22-heterogeneous-3path";

/// Maximum deviation from 1 of the median ratio of two variants' times at which both count as equally fast.
const CLOSE: f64 = 0.05;
/// Minimum median ratio of two variants' times at which the first one counts as slower.
const SLOWER: f64 = 1.02;

const D1: Claim = Claim {
    id: "D1",
    shown: "Figure 2a",
    text: "homogeneous paths, default limits: the single number space is as fast as multiple ones, with Cubic and with BBR",
    threshold: "median time single/multiple within 0.95–1.05 for both controllers",
    reason: "the curves of the figure lie on one another; 5 % is about the width of a line",
    needs: &[Need {
        experiment: HOMOGENEOUS,
        variants: &[
            "single-cubic-original",
            "multiple-cubic-original",
            "single-bbr1-original",
            "multiple-bbr1-original",
        ],
    }],
    judge: |results| {
        let [cubic, bbr] =
            ["cubic", "bbr1"].map(|congestion| numberings(results, HOMOGENEOUS, congestion, "original"));
        let (cubic, bbr) = (cubic?, bbr?);
        Some(Finding {
            figure: format!("median single/multiple {cubic:.3} (Cubic), {bbr:.3} (BBR)"),
            values: vec![cubic, bbr],
            holds: close(cubic) && close(bbr),
        })
    },
    beyond: None,
};

const D2: Claim = Claim {
    id: "D2",
    shown: "Figure 2b",
    text: "homogeneous paths: about one range in an ACK with multiple number spaces, a few runs above; clearly more with one",
    threshold: "multiple: median of mean ranges ≤ 1.2; single: median ≥ 2 and above multiple's in 90 % of the points",
    reason: "without reordering on a path every ACK needs one range; twice as many is clearly more",
    needs: &[Need {
        experiment: HOMOGENEOUS,
        variants: &["single-cubic-original", "multiple-cubic-original"],
    }],
    judge: |results| {
        let ranges = |variant| results.values(HOMOGENEOUS, variant, mean_ranges);
        let multiple = median(&ranges("multiple-cubic-original"))?;
        let single = median(&ranges("single-cubic-original"))?;
        let pair = ["single-cubic-original", "multiple-cubic-original"];
        let above = share(&values(results.ratios(HOMOGENEOUS, pair, mean_ranges)), |ratio| ratio > 1.0)?;
        Some(Finding {
            figure: format!(
                "median of mean ranges {multiple:.2} (multiple), {single:.2} (single), more in {:.0} % of points",
                above * 100.0
            ),
            values: vec![multiple, single, above * 100.0],
            holds: multiple <= 1.2 && single >= 2.0 && above >= 0.9,
        })
    },
    beyond: None,
};

const D3: Claim = Claim {
    id: "D3",
    shown: "Figure 2b",
    text: "homogeneous paths, single number space with at most 5 ranges: mean ranges stay below 5 and come close",
    threshold: "every run's mean < 5 and the median ≥ 4",
    reason: "a limit that is nearly always reached gives a mean near it",
    needs: &[Need { experiment: HOMOGENEOUS, variants: &["single-cubic-ar5-original"] }],
    judge: |results| {
        let means = results.values(HOMOGENEOUS, "single-cubic-ar5-original", mean_ranges);
        let (middle, most) = (median(&means)?, largest(means)?);
        Some(Finding {
            figure: format!("mean ranges: median {middle:.2}, largest {most:.2}"),
            values: vec![middle, most],
            holds: most < 5.0 && middle >= 4.0,
        })
    },
    beyond: None,
};

const D4: Claim = Claim {
    id: "D4",
    shown: "Figures 2a, 2c",
    text: "homogeneous paths, single number space: 5 ranges or a horizon of 128 or 1024 packets make it slower and repeat more",
    threshold: "each of the three: median time ≥ 1.02 × the default's, and more bytes repeated in the mean",
    reason: "2 % in the median is the least that can be told apart in the figure",
    needs: &[Need {
        experiment: HOMOGENEOUS,
        variants: &[
            "single-cubic-original",
            "single-cubic-ar5-original",
            "single-cubic-ah128-original",
            "single-cubic-ah1024-original",
        ],
    }],
    judge: |results| {
        let default = mean(&results.values(HOMOGENEOUS, "single-cubic-original", retransmitted))?;
        let (mut parts, mut figures) = (Vec::new(), Vec::new());
        let mut holds = true;
        for limit in ["ar5", "ah128", "ah1024"] {
            let variant = format!("single-cubic-{limit}-original");
            let ratio = middle(results.ratios(HOMOGENEOUS, [&variant, "single-cubic-original"], time))?;
            let repeated = mean(&results.values(HOMOGENEOUS, &variant, retransmitted))?;
            parts.push(format!("{limit}: time × {ratio:.3}, {repeated:.2} % repeated"));
            figures.extend([ratio, repeated]);
            holds &= ratio >= SLOWER && repeated > default;
        }
        figures.push(default);
        Some(Finding {
            figure: format!("{}; default {default:.2} %", parts.join("; ")),
            values: figures,
            holds,
        })
    },
    beyond: None,
};

const D5: Claim = Claim {
    id: "D5",
    shown: "Figure 3a",
    text: "heterogeneous paths, original, Cubic: one number space with 33 ranges, multiple ones and PQUIC are as fast",
    threshold: "median time single/multiple and PQUIC/multiple within 0.95–1.05",
    reason: "the curves of the figure lie on one another; 5 % is about the width of a line",
    needs: &[Need {
        experiment: TWO,
        variants: &["single-cubic-original", "multiple-cubic-original", "pquic"],
    }],
    judge: |results| {
        let single = numberings(results, TWO, "cubic", "original")?;
        let pquic = middle(results.ratios(TWO, ["pquic", "multiple-cubic-original"], time))?;
        Some(Finding {
            figure: format!("median single/multiple {single:.3}, PQUIC/multiple {pquic:.3}"),
            values: vec![single, pquic],
            holds: close(single) && close(pquic),
        })
    },
    beyond: None,
};

const D6: Claim = Claim {
    id: "D6",
    shown: "Figure 3a",
    text: "heterogeneous paths: few ranges or a short horizon slow one number space down, multiple ones do not care",
    threshold: "5 ranges and horizon 128: single's median time ≥ 1.05 × its default's, multiple's within 0.98–1.02",
    reason: "the paper shows single's curves well apart and multiple's on one another",
    needs: &[Need {
        experiment: TWO,
        variants: &[
            "single-cubic-original",
            "single-cubic-ar5-original",
            "single-cubic-ah128-original",
            "multiple-cubic-original",
            "multiple-cubic-ar5-original",
            "multiple-cubic-ah128-original",
        ],
    }],
    judge: |results| {
        let (mut parts, mut figures) = (Vec::new(), Vec::new());
        let mut holds = true;
        for limit in ["ar5", "ah128"] {
            let [single, multiple] = ["single", "multiple"].map(|numbering| {
                let variants =
                    [format!("{numbering}-cubic-{limit}-original"), format!("{numbering}-cubic-original")];
                middle(results.ratios(TWO, [&variants[0], &variants[1]], time))
            });
            let (single, multiple) = (single?, multiple?);
            parts.push(format!("{limit}: single × {single:.3}, multiple × {multiple:.3}"));
            figures.extend([single, multiple]);
            holds &= single >= 1.05 && (0.98..=1.02).contains(&multiple);
        }
        Some(Finding { figure: parts.join("; "), values: figures, holds })
    },
    beyond: None,
};

const D7: Claim = Claim {
    id: "D7",
    shown: "Figure 3a",
    text: "heterogeneous paths, original: BBR is slower than Cubic",
    threshold: "median time BBR/Cubic ≥ 1.02 with both numberings",
    reason: "2 % in the median is the least that can be told apart in the figure",
    needs: &[Need {
        experiment: TWO,
        variants: &[
            "single-cubic-original",
            "single-bbr1-original",
            "multiple-cubic-original",
            "multiple-bbr1-original",
        ],
    }],
    judge: |results| {
        let [single, multiple] = ["single", "multiple"].map(|numbering| {
            let variants = [format!("{numbering}-bbr1-original"), format!("{numbering}-cubic-original")];
            middle(results.ratios(TWO, [&variants[0], &variants[1]], time))
        });
        let (single, multiple) = (single?, multiple?);
        Some(Finding {
            figure: format!("median BBR/Cubic {single:.3} (single), {multiple:.3} (multiple)"),
            values: vec![single, multiple],
            holds: single >= SLOWER && multiple >= SLOWER,
        })
    },
    beyond: None,
};

const D8: Claim = Claim {
    id: "D8",
    shown: "Figure 3b",
    text: "one number space with 5 ranges, Cubic: a run repeats more than 70 % of the data, and some bytes are sent 8 times",
    threshold: "a run with more than 70 % repeated, and a byte that was sent at least 8 times",
    reason: "the paper's own figures",
    needs: &[Need { experiment: TWO, variants: &["single-cubic-ar5-original"] }],
    judge: |results| {
        let rows = || results.rows(TWO, "single-cubic-ar5-original");
        let most = largest(rows().filter_map(retransmitted))?;
        let times = rows().filter_map(|row| row.max_times_sent).max()?;
        Some(Finding {
            figure: format!("most repeated in a run {most:.1} %, most times a byte was sent {times}"),
            values: vec![most, times as f64],
            holds: most > 70.0 && times >= 8,
        })
    },
    beyond: None,
};

const D9: Claim = Claim {
    id: "D9",
    shown: "Figure 4b",
    text: "heterogeneous paths, fixed, one number space: in nearly all runs a quarter of the ACK frames is at the limit of ranges",
    threshold: "share of ACK frames at the limit ≥ 25 % in at least 90 % of the runs",
    reason: "\"nearly all\" is read as nine of ten",
    needs: &[Need { experiment: TWO, variants: &["single-cubic-fixed"] }],
    judge: |results| at_limit(results, TWO, "single-cubic-fixed", 0.25),
    beyond: None,
};

const D10: Claim = Claim {
    id: "D10",
    shown: "Figure 5",
    text: "the fixes make BBR considerably faster, Cubic and multiple number spaces too; naming old ranges first is mixed",
    threshold: "median time original/fixed: BBR ≥ 1.10 with one number space and > 1 with multiple; Cubic > 1 with both; \
                with 5 ranges at least 10 % of the points on either side of 1",
    reason: "10 % is considerable; mixed means that neither side is an exception",
    needs: &[Need {
        experiment: TWO,
        variants: &[
            "single-bbr1-original",
            "single-bbr1-fixed",
            "multiple-bbr1-original",
            "multiple-bbr1-fixed",
            "single-cubic-original",
            "single-cubic-fixed",
            "multiple-cubic-original",
            "multiple-cubic-fixed",
            "single-cubic-ar5-original",
            "single-cubic-ar5-fixed",
        ],
    }],
    judge: |results| {
        let gain =
            |stem: &str| results.ratios(TWO, [&format!("{stem}-original"), &format!("{stem}-fixed")], time);
        let single_bbr = middle(gain("single-bbr1"))?;
        let multiple_bbr = middle(gain("multiple-bbr1"))?;
        let single = middle(gain("single-cubic"))?;
        let multiple = middle(gain("multiple-cubic"))?;
        let few = values(gain("single-cubic-ar5"));
        let (better, worse) = (share(&few, |ratio| ratio > 1.0)?, share(&few, |ratio| ratio < 1.0)?);
        Some(Finding {
            figure: format!(
                "median original/fixed: BBR {single_bbr:.3} (single), {multiple_bbr:.3} (multiple); Cubic {single:.3}, \
                 {multiple:.3}; with 5 ranges faster at {:.0} %, slower at {:.0} % of points",
                better * 100.0,
                worse * 100.0
            ),
            values: vec![single_bbr, multiple_bbr, single, multiple, better * 100.0, worse * 100.0],
            holds: single_bbr >= 1.1
                && multiple_bbr > 1.0
                && single > 1.0
                && multiple > 1.0
                && better >= 0.1
                && worse >= 0.1,
        })
    },
    beyond: None,
};

const D11: Claim = Claim {
    id: "D11",
    shown: "Figure 6",
    text: "PQUIC spends many more bytes on ACKs than the others, and multiple number spaces fewer than one",
    threshold: "median ACK bytes PQUIC/multiple ≥ 3 and multiple/single < 1",
    reason: "the figure has a logarithmic axis; a factor of three is plainly seen there",
    needs: &[Need { experiment: TWO, variants: &["single-cubic-fixed", "multiple-cubic-fixed", "pquic"] }],
    judge: |results| {
        let ratio = |one, other| middle(results.ratios(TWO, [one, other], ack_bytes));
        let pquic = ratio("pquic", "multiple-cubic-fixed")?;
        let multiple = ratio("multiple-cubic-fixed", "single-cubic-fixed")?;
        Some(Finding {
            figure: format!("median ACK bytes PQUIC/multiple {pquic:.2}, multiple/single {multiple:.2}"),
            values: vec![pquic, multiple],
            holds: pquic >= 3.0 && multiple < 1.0,
        })
    },
    beyond: None,
};

const D12: Claim = Claim {
    id: "D12",
    shown: "§3.2",
    text: "without ACK_FREQUENCY, transfers take a few hundred milliseconds less",
    threshold: "median time saved between 0.1 and 1 s with both numberings, Cubic, fixed",
    reason: "\"a few hundred milliseconds\", with room on both sides",
    needs: &[Need {
        experiment: TWO,
        variants: &[
            "single-cubic-fixed",
            "single-cubic-noaf-fixed",
            "multiple-cubic-fixed",
            "multiple-cubic-noaf-fixed",
        ],
    }],
    judge: |results| {
        let [single, multiple] = ["single", "multiple"].map(|numbering| {
            let variants = [format!("{numbering}-cubic-fixed"), format!("{numbering}-cubic-noaf-fixed")];
            middle(results.paired(TWO, [&variants[0], &variants[1]], time, |with, without| with - without))
        });
        let (single, multiple) = (single?, multiple?);
        Some(Finding {
            figure: format!(
                "median time saved {:.0} ms (single), {:.0} ms (multiple)",
                single * 1e3,
                multiple * 1e3
            ),
            values: vec![single * 1e3, multiple * 1e3],
            holds: (0.1..=1.0).contains(&single) && (0.1..=1.0).contains(&multiple),
        })
    },
    beyond: None,
};

const D13: Claim = Claim {
    id: "D13",
    shown: "Figure 7",
    text: "three heterogeneous paths, one number space with 33 ranges: ACK frames at the limit, slower, and more repeated",
    threshold: "share at the limit ≥ 30 % in 90 % of the runs; median time single/multiple ≥ 1.02; more bytes repeated in the mean",
    reason: "\"nearly all\" is read as nine of ten; 2 % in the median is the least that can be told apart",
    needs: &[Need { experiment: THREE, variants: &["single-cubic-fixed", "multiple-cubic-fixed"] }],
    judge: |results| {
        let limit = at_limit(results, THREE, "single-cubic-fixed", 0.3)?;
        let ratio = numberings(results, THREE, "cubic", "fixed")?;
        let repeated = |variant| mean(&results.values(THREE, variant, retransmitted));
        let (single, multiple) = (repeated("single-cubic-fixed")?, repeated("multiple-cubic-fixed")?);
        Some(Finding {
            figure: format!(
                "{}; median single/multiple {ratio:.3}; repeated {single:.2} % against {multiple:.2} %",
                limit.figure
            ),
            values: [limit.values, vec![ratio, single, multiple]].concat(),
            holds: limit.holds && ratio >= SLOWER && single > multiple,
        })
    },
    beyond: None,
};

const D14: Claim = Claim {
    id: "D14",
    shown: "Figure 7",
    text: "three heterogeneous paths: one number space with 64 ranges is as good as multiple ones",
    threshold: "median time single with 64 ranges/multiple within 0.95–1.05",
    reason: "the curves of the figure lie on one another; 5 % is about the width of a line",
    needs: &[Need { experiment: THREE, variants: &["single-cubic-ar64-fixed", "multiple-cubic-fixed"] }],
    judge: |results| {
        let ratio = middle(results.ratios(THREE, ["single-cubic-ar64-fixed", "multiple-cubic-fixed"], time))?;
        Some(Finding {
            figure: format!("median single(64)/multiple {ratio:.3}"),
            values: vec![ratio],
            holds: close(ratio),
        })
    },
    beyond: None,
};

/// Ratio of the paths' delays from which on, according to the text of the paper, a single number space
/// suffers.
const FAR_APART: f64 = 4.0;

const D15: Claim = Claim {
    id: "D15",
    shown: "text",
    text: "one number space loses where one path's delay is at least four times the other's; multiple ones much less",
    threshold: "median of single/multiple at points with a delay ratio ≥ 4: ≥ 1.02, and ≥ 1.02 × that of the other points",
    reason: "pairs of the same point leave out what makes a point slow for both; 2 % is the least that can be told apart",
    needs: &[Need { experiment: TWO, variants: &["single-cubic-original", "multiple-cubic-original"] }],
    judge: |results| {
        let delays = results.by_point(TWO, "single-cubic-original", delay_ratio);
        let ratios = results.ratios(TWO, ["single-cubic-original", "multiple-cubic-original"], time);
        let apart = |point: &u64| delays.get(point).is_some_and(|ratio| *ratio >= FAR_APART);
        let (far, near): (Vec<_>, Vec<_>) = ratios.into_iter().partition(|(point, _)| apart(point));
        let [far, near] =
            [far, near].map(|pairs| median(&pairs.into_iter().map(|(_, ratio)| ratio).collect::<Vec<_>>()));
        let (far, near) = (far?, near?);
        Some(Finding {
            figure: format!(
                "median single/multiple {far:.3} where delays are far apart, {near:.3} elsewhere"
            ),
            values: vec![far, near],
            holds: far >= SLOWER && far >= SLOWER * near,
        })
    },
    beyond: None,
};

fn time(row: &Row) -> Option<f64> {
    row.transfer_time_s
}

fn retransmitted(row: &Row) -> Option<f64> {
    row.retransmitted_percent
}

fn mean_ranges(row: &Row) -> Option<f64> {
    row.mean_ranges
}

fn ack_bytes(row: &Row) -> Option<f64> {
    row.ack_bytes.map(|bytes| bytes as f64)
}

fn limit_share(row: &Row) -> Option<f64> {
    row.limit_share
}

/// Returns the ratio of the largest to the smallest delay of the point's paths.
fn delay_ratio(row: &Row) -> Option<f64> {
    let smallest = row.path_owd_ms.iter().copied().min_by(f64::total_cmp)?;
    Some(largest(row.path_owd_ms.iter().copied())? / smallest)
}

fn close(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= CLOSE
}

fn values(by_point: BTreeMap<u64, f64>) -> Vec<f64> {
    by_point.into_values().collect()
}

fn middle(by_point: BTreeMap<u64, f64>) -> Option<f64> {
    median(&values(by_point))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the median ratio of the transfer time with one number space to that with multiple ones.
fn numberings(results: &Results, experiment: &str, congestion: &str, behaviour: &str) -> Option<f64> {
    let variants = ["single", "multiple"].map(|numbering| format!("{numbering}-{congestion}-{behaviour}"));
    middle(results.ratios(experiment, [&variants[0], &variants[1]], time))
}

/// Judges the claim that in nine of ten runs at least the share `least` (0 to 1) of the ACK frames has the
/// maximum number of ranges.
fn at_limit(results: &Results, experiment: &str, variant: &str, least: f64) -> Option<Finding> {
    let metric: Metric = limit_share;
    let shares = results.values(experiment, variant, metric);
    let runs = share(&shares, |share| share >= least)?;
    let middle = median(&shares)?;
    Some(Finding {
        figure: format!(
            "{:.0} % of ACK frames at the limit in the median, at least {:.0} % in {:.0} % of runs",
            middle * 100.0,
            least * 100.0,
            runs * 100.0
        ),
        values: vec![middle * 100.0, runs * 100.0],
        holds: runs >= 0.9,
    })
}
