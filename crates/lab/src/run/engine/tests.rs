use std::sync::Arc;

use super::super::tests::download;
use super::super::{RunOptions, run};
use super::*;
use crate::experiment::Job;
use crate::profile::{Settings, Variant};

/// Engine that reports the seed as transfer time, and whose runs fail if a path is slower than 15 Mbit/s.
#[derive(Debug)]
struct Fake;

impl Engine for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn version(&self) -> &str {
        "fake-1"
    }

    fn run(&self, order: &Order<'_>, row: &mut Row) -> Result<(), String> {
        row.transfer_time_s = Some(order.seed as f64);
        row.path_bytes = vec![7; order.paths.len()];
        match order.paths.iter().find(|path| path.rate_mbps < 15.0) {
            Some(path) => Err(format!("{} is too slow for {}", path.rate_mbps, order.external.stack)),
            None => Ok(()),
        }
    }
}

fn experiment() -> Experiment {
    let mut experiment = download(1000);
    let external = |text: &str, paths: &[usize]| {
        let external = Some(text.parse().unwrap());
        let settings = Settings { external, paths: Some(paths.to_vec()), ..Settings::default() };
        Variant { name: text.replace('/', "-"), settings }
    };
    experiment.variants =
        vec![external("fake/x/tls", &[1, 0]), external("fake/x", &[1]), external("none/x", &[0])];
    experiment
}

#[test]
fn an_engine_fills_rows_like_any_other() {
    let experiment = experiment();
    let options = RunOptions { commit: "c".into(), engines: vec![Arc::new(Fake)], ..RunOptions::default() };
    let finished = |variant| run(&experiment, Job { variant, point: 1, repetition: 0 }, &options);
    let done = finished(1);
    let row = done.row;
    assert_eq!((row.failure.as_str(), row.variant.as_str(), row.wire.as_str()), ("", "fake-x", "fake"));
    assert_eq!((row.commit.as_str(), row.point, row.seed), ("c+fake-1", 9, 9 << 8));
    assert_eq!(
        (row.transfer_time_s, row.path_bytes, done.paths),
        (Some(f64::from(9 << 8)), vec![7], vec![1])
    );
    assert_eq!(row.path_rate_mbps, [10.0, 30.0], "those of the point, used or not");
    let failed = finished(0);
    assert_eq!((failed.row.failure.as_str(), failed.row.wire.as_str()), ("10 is too slow for x", "fake/tls"));
    assert_eq!((failed.row.path_bytes, failed.paths), (vec![7; 2], vec![1, 0]), "what was measured is kept");
}

#[test]
fn a_stack_without_its_engine_fails_by_name() {
    let finished = run(&experiment(), Job { variant: 2, point: 0, repetition: 0 }, &RunOptions::default());
    assert_eq!(finished.row.failure, "this program has no engine `none` for none/x");
}
