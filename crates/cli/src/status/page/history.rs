//! Rates and round-trip times of the last ten minutes.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::status::report::Report;

/// Maximum number of points, one for each second: ten minutes.
const MAX_POINTS: usize = 600;
/// Maximum number of lines, each for an interface or a remote address, of a point.
const MAX_LINES: usize = 16;

/// Points as JSON objects, oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Value>);

impl History {
    /// Adds a report. The line of an interface has the sums of its paths' rates, and the round-trip time of
    /// the last one.
    pub(super) fn add(&mut self, report: &Report) {
        let mut lines: Map<String, Value> = Map::new();
        for path in &report.paths {
            let name = path.interface.as_deref().filter(|name| *name != "lo").unwrap_or(&path.remote);
            let line = [path.sent.rate(), path.received.rate()];
            let before =
                lines.get(name).map_or([0.0; 2], |line| [0, 1].map(|i| line[i].as_f64().unwrap_or(0.0)));
            if lines.len() < MAX_LINES || lines.contains_key(name) {
                lines.insert(name.to_owned(), json!([line[0] + before[0], line[1] + before[1], path.rtt_ms]));
            }
        }
        self.0.push_back(json!({ "t": report.up_s, "paths": lines }));
        if self.0.len() > MAX_POINTS {
            self.0.pop_front();
        }
    }

    /// Returns all points as JSON.
    pub(super) fn json(&self) -> String {
        let points: Vec<_> = self.0.iter().map(Value::to_string).collect();
        format!("[{}]", points.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::report::{PathReport, Rated};

    #[test]
    fn max_points_of_max_lines_are_kept() {
        let mut history = History::default();
        let path = |n: usize| PathReport {
            interface: Some(format!("if{n}")),
            received: Rated { bytes: 1, mbps: Some(2.0) },
            ..PathReport::default()
        };
        let paths: Vec<_> = (0..MAX_LINES + 3).map(path).chain([path(0)]).collect();
        for second in 0..MAX_POINTS + 5 {
            history.add(&Report { up_s: second as f64, paths: paths.clone(), ..Report::default() });
        }
        let points: Vec<Value> = serde_json::from_str(&history.json()).unwrap();
        assert_eq!((points.len(), &points[0]["t"]), (MAX_POINTS, &json!(5.0)));
        assert_eq!(points[0]["paths"].as_object().unwrap().len(), MAX_LINES);
        assert_eq!(points[0]["paths"]["if0"][1], 4.0, "both paths of the interface");
    }
}
