//! Figures of "The Packet Number Space Debate in Multipath QUIC" (CCR 2022).

use super::{Figure, Form, RatioSeries, Series, dashed, solid};
use crate::record::Row;

const HOMOGENEOUS: &str = "ccr22-homogeneous-2path";
const TWO: &str = "ccr22-heterogeneous-2path";
const THREE: &str = "ccr22-heterogeneous-3path";

const TIME: &str = "transfer time (s)";
const REPEATED: &str = "bytes repeated by the server (% of the transfer)";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        id: "ccr22-2a",
        experiment: HOMOGENEOUS,
        title: "Two equal paths: transfer time of 50 MB",
        axis: TIME,
        log: false,
        form: Form::Distribution(time, ORIGINAL),
    },
    Figure {
        id: "ccr22-2b",
        experiment: HOMOGENEOUS,
        title: "Two equal paths: ranges in the client's ACK frames",
        axis: "mean number of ranges in an ACK frame",
        log: true,
        form: Form::Distribution(mean_ranges, ORIGINAL),
    },
    Figure {
        id: "ccr22-2c",
        experiment: HOMOGENEOUS,
        title: "Two equal paths: data sent again",
        axis: REPEATED,
        log: false,
        form: Form::Distribution(repeated, ORIGINAL),
    },
    Figure {
        id: "ccr22-3a",
        experiment: TWO,
        title: "Two unequal paths, original behaviour: transfer time of 50 MB",
        axis: TIME,
        log: false,
        form: Form::Distribution(time, ORIGINAL),
    },
    Figure {
        id: "ccr22-3b",
        experiment: TWO,
        title: "Two unequal paths, original behaviour: data sent again",
        axis: REPEATED,
        log: false,
        form: Form::Distribution(repeated, ORIGINAL),
    },
    Figure {
        id: "ccr22-4a",
        experiment: TWO,
        title: "Two unequal paths, fixed behaviour: transfer time of 50 MB",
        axis: TIME,
        log: false,
        form: Form::Distribution(time, FIXED),
    },
    Figure {
        id: "ccr22-4b",
        experiment: TWO,
        title: "Two unequal paths, fixed behaviour: data sent again",
        axis: REPEATED,
        log: false,
        form: Form::Distribution(repeated, FIXED),
    },
    Figure {
        id: "ccr22-5",
        experiment: TWO,
        title: "Two unequal paths: what the fixes bring",
        axis: "transfer time, original / fixed",
        log: true,
        form: Form::Ratio(time, GAIN),
    },
    Figure {
        id: "ccr22-6",
        experiment: TWO,
        title: "Two unequal paths, fixed behaviour: bytes of acknowledgment frames",
        axis: "bytes of the client's ACK frames",
        log: true,
        form: Form::Distribution(ack_bytes, ACKS),
    },
    Figure {
        id: "ccr22-7a",
        experiment: THREE,
        title: "Three unequal paths, fixed behaviour: transfer time of 50 MB",
        axis: TIME,
        log: false,
        form: Form::Distribution(time, THREE_PATHS),
    },
    Figure {
        id: "ccr22-7b",
        experiment: THREE,
        title: "Three unequal paths, fixed behaviour: data sent again",
        axis: REPEATED,
        log: false,
        form: Form::Distribution(repeated, THREE_PATHS),
    },
];

const ORIGINAL: &[Series] = &[
    Series { label: "multiple, Cubic", variant: "multiple-cubic-original", style: solid(0) },
    Series { label: "single, Cubic", variant: "single-cubic-original", style: solid(1) },
    Series { label: "multiple, BBR", variant: "multiple-bbr1-original", style: dashed(0) },
    Series { label: "single, BBR", variant: "single-bbr1-original", style: dashed(1) },
    Series { label: "single, Cubic, 5 ranges", variant: "single-cubic-ar5-original", style: solid(2) },
    Series { label: "single, Cubic, horizon 128", variant: "single-cubic-ah128-original", style: solid(3) },
    Series { label: "single, Cubic, horizon 1024", variant: "single-cubic-ah1024-original", style: solid(4) },
    Series { label: "single, BBR, 5 ranges", variant: "single-bbr1-ar5-original", style: dashed(2) },
    Series { label: "single, BBR, horizon 128", variant: "single-bbr1-ah128-original", style: dashed(3) },
    Series { label: "single, BBR, horizon 1024", variant: "single-bbr1-ah1024-original", style: dashed(4) },
    Series { label: "PQUIC profile", variant: "pquic", style: solid(5) },
];

const FIXED: &[Series] = &[
    Series { label: "multiple, Cubic", variant: "multiple-cubic-fixed", style: solid(0) },
    Series { label: "single, Cubic", variant: "single-cubic-fixed", style: solid(1) },
    Series { label: "multiple, BBR", variant: "multiple-bbr1-fixed", style: dashed(0) },
    Series { label: "single, BBR", variant: "single-bbr1-fixed", style: dashed(1) },
    Series { label: "single, Cubic, 5 ranges", variant: "single-cubic-ar5-fixed", style: solid(2) },
    Series { label: "single, Cubic, horizon 128", variant: "single-cubic-ah128-fixed", style: solid(3) },
    Series { label: "single, Cubic, horizon 1024", variant: "single-cubic-ah1024-fixed", style: solid(4) },
    Series { label: "single, BBR, 5 ranges", variant: "single-bbr1-ar5-fixed", style: dashed(2) },
    Series { label: "single, BBR, horizon 128", variant: "single-bbr1-ah128-fixed", style: dashed(3) },
    Series { label: "single, BBR, horizon 1024", variant: "single-bbr1-ah1024-fixed", style: dashed(4) },
    Series { label: "PQUIC profile", variant: "pquic", style: solid(5) },
];

const GAIN: &[RatioSeries] = &[
    RatioSeries {
        label: "multiple, Cubic",
        over: ["multiple-cubic-original", "multiple-cubic-fixed"],
        style: solid(0),
    },
    RatioSeries {
        label: "single, Cubic",
        over: ["single-cubic-original", "single-cubic-fixed"],
        style: solid(1),
    },
    RatioSeries {
        label: "multiple, BBR",
        over: ["multiple-bbr1-original", "multiple-bbr1-fixed"],
        style: dashed(0),
    },
    RatioSeries {
        label: "single, BBR",
        over: ["single-bbr1-original", "single-bbr1-fixed"],
        style: dashed(1),
    },
    RatioSeries {
        label: "single, Cubic, 5 ranges",
        over: ["single-cubic-ar5-original", "single-cubic-ar5-fixed"],
        style: solid(2),
    },
    RatioSeries {
        label: "single, BBR, 5 ranges",
        over: ["single-bbr1-ar5-original", "single-bbr1-ar5-fixed"],
        style: dashed(2),
    },
];

const ACKS: &[Series] = &[
    Series { label: "multiple, Cubic", variant: "multiple-cubic-fixed", style: solid(0) },
    Series { label: "single, Cubic", variant: "single-cubic-fixed", style: solid(1) },
    Series {
        label: "multiple, Cubic, no ACK_FREQUENCY",
        variant: "multiple-cubic-noaf-fixed",
        style: dashed(0),
    },
    Series { label: "single, Cubic, no ACK_FREQUENCY", variant: "single-cubic-noaf-fixed", style: dashed(1) },
    Series { label: "PQUIC profile", variant: "pquic", style: solid(5) },
];

const THREE_PATHS: &[Series] = &[
    Series { label: "multiple, Cubic", variant: "multiple-cubic-fixed", style: solid(0) },
    Series { label: "single, Cubic", variant: "single-cubic-fixed", style: solid(1) },
    Series { label: "single, Cubic, 64 ranges", variant: "single-cubic-ar64-fixed", style: solid(3) },
    Series { label: "multiple, BBR", variant: "multiple-bbr1-fixed", style: dashed(0) },
    Series { label: "single, BBR", variant: "single-bbr1-fixed", style: dashed(1) },
    Series { label: "single, BBR, 64 ranges", variant: "single-bbr1-ar64-fixed", style: dashed(3) },
    Series { label: "PQUIC profile", variant: "pquic", style: solid(5) },
];

fn time(row: &Row) -> Option<f64> {
    row.transfer_time_s
}

fn repeated(row: &Row) -> Option<f64> {
    row.retransmitted_percent
}

fn mean_ranges(row: &Row) -> Option<f64> {
    row.mean_ranges
}

fn ack_bytes(row: &Row) -> Option<f64> {
    row.ack_bytes.map(|bytes| bytes as f64)
}
