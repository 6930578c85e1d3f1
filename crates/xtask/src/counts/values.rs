//! Instructions of workloads, as the repository keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Number of functions of a workload in the repository: those with most instructions.
const KEPT: usize = 60;

/// Comment at the beginning of the file.
const HEAD: &str = "# Instructions for each operation, by function. Written by `cargo xtask counts --write`, never by hand.\n\n";

/// Contents of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Values {
    /// Programs that made the instructions and counted them. Others make, or count, others.
    pub(super) made_by: Vec<String>,
    pub(super) workloads: BTreeMap<String, Counted>,
}

/// Instructions of one operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Counted {
    pub(super) instructions: f64,
    /// Instructions in each function itself.
    pub(super) functions: BTreeMap<String, f64>,
}

impl Values {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let text = toml::to_string(self).map_err(|error| format!("{}: {error}", path.display()))?;
        fs::write(path, format!("{HEAD}{text}")).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Counted {
    /// Returns the `count` functions with most instructions.
    pub(super) fn largest(&self, count: usize) -> impl Iterator<Item = (&str, f64)> {
        largest(self.functions.iter().map(|(name, value)| (name.as_str(), *value))).take(count)
    }

    /// Returns the functions that have grown since `before`, and by how many instructions at least. A function without a value there
    /// had at most as many as the last one that is kept.
    pub(super) fn grown<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (&'a str, f64)> {
        let names: BTreeSet<&str> =
            self.functions.keys().chain(before.functions.keys()).map(String::as_str).collect();
        let least = before.functions.values().copied().fold(f64::INFINITY, f64::min);
        let others = if before.functions.len() < KEPT { 0.0 } else { least };
        let of = |counted: &Self, name: &str, others| counted.functions.get(name).copied().unwrap_or(others);
        largest(names.into_iter().map(move |name| (name, of(self, name, 0.0) - of(before, name, others))))
            .filter(|(_, by)| *by > 0.0)
    }

    /// Returns what the repository keeps: the functions with most instructions, with one decimal.
    pub(super) fn rounded(&self) -> Self {
        let round = |value: f64| (10.0 * value).round() / 10.0;
        let functions = self.largest(KEPT).map(|(name, value)| (name.to_owned(), round(value))).collect();
        Self { instructions: round(self.instructions), functions }
    }
}

/// Sorts functions, those with the largest value first.
fn largest<'a>(functions: impl Iterator<Item = (&'a str, f64)>) -> impl Iterator<Item = (&'a str, f64)> {
    let mut functions: Vec<_> = functions.collect();
    functions.sort_by(|a, b| b.1.total_cmp(&a.1));
    functions.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(functions: &[(&str, f64)]) -> Counted {
        Counted {
            instructions: functions.iter().map(|(_, value)| value).sum(),
            functions: functions.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    #[test]
    fn the_function_that_grew_most_is_the_first() {
        let before = counted(&[("a", 10.0), ("b", 100.0), ("gone", 5.0)]);
        let now = counted(&[("a", 30.0), ("b", 101.0), ("new", 7.0)]);
        assert_eq!(now.grown(&before).collect::<Vec<_>>(), [("a", 20.0), ("new", 7.0), ("b", 1.0)]);
        // A function that was below the last one that is kept has grown by less than its whole value.
        let names: Vec<String> = (0..KEPT).map(|number| format!("f{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), 6.0)).collect();
        assert_eq!(now.grown(&counted(&many)).last(), Some(("new", 1.0)));
        assert_eq!(now.largest(1).collect::<Vec<_>>(), [("b", 101.0)]);
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts.toml");
        assert!(Values::read(&path).unwrap_err().contains("counts.toml"));
        let one = counted(&[("<a as b>::c \"quoted\"", 10.25)]).rounded();
        let workloads = BTreeMap::from([("send".to_owned(), one)]);
        let made_by = vec!["rustc 1.2.3".to_owned()];
        Values { made_by: made_by.clone(), workloads: workloads.clone() }.write(&path).unwrap();
        let read = Values::read(&path).unwrap();
        assert_eq!((&read.made_by, &read.workloads), (&made_by, &workloads));
        assert_eq!(read.workloads["send"].instructions, 10.3);
    }
}
