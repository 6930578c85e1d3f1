//! The figures of "Multipath QUIC: Design and Evaluation" (CoNEXT 2017). TCP and Multipath TCP are those of
//! Linux with TLS 1.2, run by `anabranch lab linux`.

use super::{Figure, Form, RatioSeries, Series, dashed, solid};
use crate::record::Row;

const LOW: &str = "conext17-low-bdp-no-loss";
const LOW_LOSSES: &str = "conext17-low-bdp-losses";
const HIGH: &str = "conext17-high-bdp-no-loss";
const HIGH_LOSSES: &str = "conext17-high-bdp-losses";
const SHORT: &str = "conext17-low-bdp-no-loss-256kb";

const RATIO: &str = "time with TCP / time with QUIC";
const BENEFIT: &str = "experimental aggregation benefit";

const fn ratio(id: &'static str, experiment: &'static str, title: &'static str) -> Figure {
    Figure { id, experiment, title, axis: RATIO, log: true, form: Form::Ratio(time, AGAINST_TCP) }
}

const fn benefit(id: &'static str, experiment: &'static str, title: &'static str) -> Figure {
    Figure { id, experiment, title, axis: BENEFIT, log: false, form: Form::Boxes(eben, BOTH) }
}

pub(super) const FIGURES: &[Figure] = &[
    ratio("conext17-3", LOW, "Low BDP, no loss, 20 MB: TCP against QUIC"),
    benefit("conext17-4", LOW, "Low BDP, no loss, 20 MB: aggregation benefit"),
    ratio("conext17-5", LOW_LOSSES, "Low BDP, losses, 20 MB: TCP against QUIC"),
    benefit("conext17-6", LOW_LOSSES, "Low BDP, losses, 20 MB: aggregation benefit"),
    benefit("conext17-7", HIGH, "High BDP, no loss, 20 MB: aggregation benefit"),
    ratio("conext17-8", HIGH_LOSSES, "High BDP, losses, 20 MB: TCP against QUIC"),
    ratio("conext17-9", SHORT, "Low BDP, no loss, 256 KB: TCP against QUIC"),
    benefit("conext17-10", SHORT, "Low BDP, no loss, 256 KB: aggregation benefit"),
    Figure {
        id: "conext17-11",
        experiment: "conext17-handover",
        title: "Handover: the first path loses everything after three seconds",
        axis: "time of the request (s)",
        log: false,
        form: Form::Requests(100, HANDOVER),
    },
];

const AGAINST_TCP: &[RatioSeries] = &[
    RatioSeries {
        label: "TCP / QUIC",
        over: ["linux-tcp-cubic-path-0-tls12", "quic-path-0"],
        style: solid(0),
    },
    RatioSeries { label: "Multipath TCP / Multipath QUIC", over: [MPTCP, "mpquic"], style: dashed(1) },
];

/// Variant of Multipath TCP with TLS 1.2, as in the paper.
const MPTCP: &str = "linux-mptcp-tls12";

const BOTH: &[Series] = &[
    Series { label: "Multipath QUIC", variant: "mpquic", style: solid(0) },
    Series { label: "Multipath TCP", variant: MPTCP, style: dashed(2) },
];

const HANDOVER: &[Series] = &[
    Series { label: "server is told", variant: "mpquic", style: solid(0) },
    Series { label: "server is not told", variant: "mpquic-no-signal", style: dashed(1) },
    Series { label: "Multipath TCP", variant: MPTCP, style: solid(2) },
];

fn time(row: &Row) -> Option<f64> {
    row.transfer_time_s
}

fn eben(row: &Row) -> Option<f64> {
    row.eben
}
