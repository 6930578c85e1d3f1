//! Transfer times in the single packet number space beside those with a space for each path.
#![cfg(feature = "experiments")]

use anabranch_lab::experiment::{ALL_VARIANTS, End, Workload, named};
use anabranch_lab::profile::{Settings, Variant};
use anabranch_lab::sweep::{SweepOptions, sweep};

/// Points at which the path with the higher rate is the longer one, so that most of its ACKs return on the
/// other path. When such ACKs gave no round-trip time sample, BBR took 1.5 to 2 times as long there.
const POINTS: [usize; 3] = [10, 40, 60];
const BYTES: u64 = 20_000_000;
/// Maximum ratio of the transfer times.
const MAX_RATIO: f64 = 1.1;

#[test]
fn one_space_is_about_as_fast_as_a_space_for_each_path() {
    let mut experiment = named("ccr22-heterogeneous-2path", None).unwrap();
    let variants = ["bbr", "cubic"].map(|controller| {
        ["multiple", "single"].map(|numbering| {
            let name = format!("{controller}-{numbering}");
            let text = format!("congestion = \"{controller}\"\nnumbering = \"{numbering}\"");
            Variant::with(&name, &["default"], Settings::parse(&name, &text).unwrap()).unwrap()
        })
    });
    experiment.variants = variants.into_iter().flatten().collect();
    experiment.usual = ALL_VARIANTS;
    experiment.repetitions = 1;
    experiment.points = POINTS.iter().map(|point| experiment.points[*point].clone()).collect();
    experiment.workload = Workload::Download { bytes: BYTES, until: End::LastByte };
    let dir = tempfile::tempdir().unwrap();
    let options = SweepOptions { dir: dir.path().join("runs"), ..SweepOptions::default() };
    let rows = sweep(&experiment, &options, &()).unwrap();
    let time = |variant: &str, point: u64| {
        let row = rows.iter().find(|row| row.variant == variant && row.point == point).unwrap();
        assert_eq!(row.failure, "");
        row.transfer_time_s.unwrap()
    };
    for controller in ["bbr", "cubic"] {
        for point in POINTS.map(|point| point as u64) {
            let [multiple, single] =
                ["multiple", "single"].map(|numbering| time(&format!("{controller}-{numbering}"), point));
            assert!(
                single <= MAX_RATIO * multiple,
                "{controller}, point {point}: {single} against {multiple}"
            );
        }
    }
}
