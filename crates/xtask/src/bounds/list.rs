//! List of the bounds: where each is applied, the text without it, and the tests that must then fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::driver;

/// Files of the list, one for each section of docs/threats.md, and one for the driver.
const FILES: [(&str, &str); 6] = [
    ("transport.toml", include_str!("transport.toml")),
    ("paths.toml", include_str!("paths.toml")),
    ("vreverso.toml", include_str!("vreverso.toml")),
    ("http3.toml", include_str!("http3.toml")),
    ("tunnels.toml", include_str!("tunnels.toml")),
    ("driver.toml", include_str!("driver.toml")),
];

/// Word in a replacement that is `true` while the bound is taken out.
const SWITCH: &str = "TAKEN_OUT";

/// Content of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    bound: Vec<Bound>,
    #[serde(default)]
    kept: Vec<Kept>,
}

/// Bound that is taken out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bound {
    /// Number of the row in docs/threats.md; `–` for a bound in the text between the tables, or [`driver::ROW`].
    pub(super) row: String,
    /// Constant, or words for a bound without one.
    pub(super) name: String,
    /// Behaviour of the patched code.
    pub(super) without: String,
    pub(super) edits: Vec<Edit>,
    /// Tests that must fail, as `file#test`.
    pub(super) tests: Vec<String>,
}

/// Text of the code that applies a bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// File relative to `crates/`.
    pub(super) file: String,
    /// Text that is found once in the file.
    pub(super) text: String,
    /// Its replacement, with [`SWITCH`] as the condition.
    pub(super) by: String,
}

/// Bound that is not taken out, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) row: String,
    pub(super) name: String,
    pub(super) why: String,
}

/// Whole list.
#[derive(Debug)]
pub(crate) struct List {
    pub(super) bounds: Vec<Bound>,
    pub(super) kept: Vec<Kept>,
}

impl Bound {
    /// Returns the value of the environment variable that takes this bound out.
    pub(super) fn switch(&self) -> String {
        format!("{} {}", self.row, self.name)
    }

    /// Returns whether this bound belongs to the row, and covers the constant `name`.
    fn covers(&self, row: &str, name: &str) -> bool {
        self.row == row && names(&self.name, name)
    }
}

/// Returns whether the words contain the name as a whole word.
fn names(words: &str, name: &str) -> bool {
    words.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// Reads the list.
pub(super) fn read() -> Result<List, String> {
    let mut list = List { bounds: Vec::new(), kept: Vec::new() };
    for (name, text) in FILES {
        let file: File = toml::from_str(text).map_err(|error| format!("bounds/{name}: {error}"))?;
        list.bounds.extend(file.bound);
        list.kept.extend(file.kept);
    }
    Ok(list)
}

/// Row of docs/threats.md.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) number: String,
    /// Constants and functions that the row names as its bound.
    names: Vec<String>,
    pub(super) tests: Vec<String>,
}

/// Returns the rows of the page. Names in text between the tables belong to the row `–`.
pub(super) fn rows(page: &str) -> Vec<Row> {
    let mut rows = vec![Row { number: "–".to_owned(), ..Row::default() }];
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let named = |text: &str| -> Vec<String> {
            let names = text.split('`').skip(1).step_by(2).filter(|name| name.contains(".rs#"));
            names.map(str::to_owned).collect()
        };
        match cells[..] {
            [number, _, _, bound, tests, ..] if line.starts_with("| ") && line.contains(".rs#") => {
                let number = number.trim_start_matches("| ").to_owned();
                rows.push(Row { number, names: named(bound), tests: named(tests) });
            }
            [text] if !line.starts_with('|') => {
                let (tests, names) = named(text).into_iter().partition(|name| name.ends_with(is_lower));
                let row = &mut rows[0];
                row.names.extend::<Vec<String>>(names);
                row.tests.extend::<Vec<String>>(tests);
            }
            _ => {}
        }
    }
    rows
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase()
}

impl List {
    /// Returns the faults of the list: texts that are not found once, tests that do not exist, and bounds of
    /// docs/threats.md that the list lacks.
    pub(crate) fn faults(&self, root: &Path) -> Result<Vec<String>, String> {
        let page = fs::read_to_string(root.join("docs/threats.md")).map_err(|error| error.to_string())?;
        let rows = rows(&page);
        let mut faults = Vec::new();
        for bound in &self.bounds {
            let name = bound.switch();
            if self.bounds.iter().filter(|other| other.switch() == name).count() > 1 {
                faults.push(format!("`{name}` is listed twice"));
            }
            if bound.tests.is_empty() || bound.edits.is_empty() {
                faults.push(format!("`{name}` has no test or no text"));
            }
            for test in bound.tests.iter().filter(|test| !has_test(root, test)) {
                faults.push(format!("`{name}`: the test `{test}` does not exist"));
            }
            if bound.row != driver::ROW && !rows.iter().any(|row| row.number == bound.row) {
                faults.push(format!("`{name}`: docs/threats.md has no such row"));
            }
        }
        for row in &rows {
            faults.extend(self.lacks(row));
        }
        let untaken = driver::tests(root)?.into_iter().filter(|test| !self.names_test(test));
        faults.extend(untaken.map(|test| format!("`{test}`: nothing is taken out that it needs")));
        if let Err(error) = self.patches(root) {
            faults.push(error);
        }
        Ok(faults)
    }

    /// Returns whether a bound has this test.
    fn names_test(&self, test: &String) -> bool {
        self.bounds.iter().any(|bound| bound.tests.contains(test))
    }

    /// Returns the bounds of a row that the list lacks.
    fn lacks(&self, row: &Row) -> Vec<String> {
        let covered = |name: &str| {
            self.bounds.iter().any(|bound| bound.covers(&row.number, name))
                || self.kept.iter().any(|kept| kept.row == row.number && names(&kept.name, name))
        };
        let items = row.names.iter().filter_map(|name| name.split_once('#')).map(|(_, item)| item);
        let mut lacks: Vec<String> = items
            .filter(|item| !covered(item))
            .map(|item| format!("row {}: nothing takes out `{item}`", row.number))
            .collect();
        let has_any = self.bounds.iter().any(|bound| bound.row == row.number)
            || self.kept.iter().any(|kept| kept.row == row.number);
        if !has_any {
            lacks.push(format!("row {}: nothing is taken out", row.number));
        }
        lacks
    }

    /// Returns the text of each file that the list changes, with all bounds guarded by their switches.
    pub(super) fn patches(&self, root: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut places: BTreeMap<&str, Vec<(usize, &Edit, String)>> = BTreeMap::new();
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for bound in &self.bounds {
            for edit in &bound.edits {
                let path = root.join("crates").join(&edit.file);
                let read = || fs::read_to_string(&path).map_err(|error| format!("{}: {error}", edit.file));
                if !texts.contains_key(edit.file.as_str()) {
                    texts.insert(&edit.file, read()?);
                }
                let text = &texts[edit.file.as_str()];
                let found: Vec<usize> = text.match_indices(&edit.text).map(|(at, _)| at).collect();
                let &[at] = &found[..] else {
                    let switch = bound.switch();
                    return Err(format!("`{switch}`: {} times in {}: {}", found.len(), edit.file, edit.text));
                };
                let call = format!("crate::taken_out({:?})", bound.switch());
                if !edit.by.contains(SWITCH) {
                    return Err(format!("`{}`: the replacement lacks {SWITCH}", bound.switch()));
                }
                places.entry(&edit.file).or_default().push((at, edit, edit.by.replace(SWITCH, &call)));
            }
        }
        let mut patched = BTreeMap::new();
        for (file, mut edits) in places {
            edits.sort_by_key(|(at, _, _)| *at);
            let mut out = String::new();
            let (text, mut from) = (&texts[file], 0);
            for (at, edit, by) in edits {
                let before = text.get(from..at).filter(|_| from <= at);
                out += before
                    .ok_or_else(|| format!("two bounds change the same text of {file}: {}", edit.text))?;
                out += &by;
                from = at + edit.text.len();
            }
            out += &text[from..];
            patched.insert(file.to_owned(), out);
        }
        Ok(patched)
    }
}

/// Returns whether `file#test` is a function of the file.
fn has_test(root: &Path, test: &str) -> bool {
    let Some((file, name)) = test.split_once('#') else { return false };
    let text = fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
    text.contains(&format!("fn {name}("))
}

#[cfg(test)]
mod tests;
