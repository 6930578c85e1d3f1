//! Reordering of received packets in the command's output.

use anabranch::{REORDERING_DELAYS, REORDERING_DISTANCES, ReorderingStats};
use serde_json::{Value, json};

/// Returns the counts as JSON. Distances and delays are counted in classes with the upper limit `le`; the last
/// class has no limit.
pub(crate) fn facts(stats: &ReorderingStats) -> Value {
    let timed: u64 = stats.delays.iter().sum();
    let mean = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    json!({
        "packets": stats.packets(),
        "mean_distance": mean(stats.total_distance as f64, stats.packets()),
        "max_distance": stats.max_distance,
        "mean_delay_ms": mean(ms(stats.total_delay), timed),
        "max_delay_ms": ms(stats.max_delay),
        "untimed": stats.untimed,
        "distances": classes(REORDERING_DISTANCES.iter().map(|limit| json!(limit)), &stats.distances),
        "delays_ms": classes(REORDERING_DELAYS.iter().map(|limit| json!(ms(*limit))), &stats.delays),
    })
}

fn classes(limits: impl Iterator<Item = Value>, counts: &[u64]) -> Vec<Value> {
    let limits = limits.chain([Value::Null]);
    limits.zip(counts).map(|(le, packets)| json!({ "le": le, "packets": packets })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_name_their_limits_and_means_are_those_of_what_was_counted() {
        let mut stats = ReorderingStats::default();
        assert_eq!(facts(&stats)["mean_distance"], Value::Null);
        stats.distances[2] = 3;
        stats.total_distance = 9;
        stats.delays[11] = 1;
        stats.total_delay = std::time::Duration::from_millis(300);
        let facts = facts(&stats);
        assert_eq!((&facts["packets"], &facts["mean_distance"]), (&json!(3), &json!(3.0)));
        assert_eq!(facts["distances"][2], json!({ "le": 4, "packets": 3 }));
        assert_eq!(facts["delays_ms"][11], json!({ "le": null, "packets": 1 }));
        assert_eq!(facts["delays_ms"][2]["le"], json!(0.5));
        assert_eq!(facts["mean_delay_ms"], json!(300.0));
    }
}
