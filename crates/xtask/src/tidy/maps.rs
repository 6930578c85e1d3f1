//! Maps of the code: files named in the glossary and in the diagrams of `ARCHITECTURE.md` must exist. In its
//! diagram of the floors, each floor must have exactly the crates that the table of floors lists.

use std::collections::BTreeSet;

use super::{Fault, Source};

pub(super) const MAP: &str = "ARCHITECTURE.md";
const GLOSSARY: &str = "docs/glossary.md";
/// Folder that the diagrams of a datagram and of a write describe.
const CORE: &str = "crates/transport/src/";

/// Reports names that do not exist.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let paths: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let exists = |path: &str| {
        let folder = format!("{path}/");
        paths.contains(path) || paths.iter().any(|known| known.starts_with(&folder))
    };
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path == GLOSSARY) {
        for (index, line) in source.text.lines().enumerate() {
            let names = line.split('`').skip(1).step_by(2).filter(|name| name.contains("/src"));
            let gone = names.filter(|name| !exists(&format!("crates/{name}")));
            faults.extend(gone.map(|name| source.fault(index, format!("{name} does not exist"))));
        }
    }
    for source in sources.iter().filter(|source| source.path == MAP) {
        let floors = floors(&source.text);
        let mut drawing = false;
        for (index, line) in source.text.lines().enumerate() {
            if line.starts_with("```") {
                drawing = !drawing && line == "```text";
                continue;
            }
            if !drawing {
                continue;
            }
            if let Some((floor, crates)) =
                line.split_once("  ").filter(|(floor, _)| floor.parse::<u8>().is_ok())
            {
                let drawn: BTreeSet<&str> = crates.split_whitespace().collect();
                let listed: BTreeSet<&str> =
                    floors.iter().filter(|(of, _)| *of == floor).map(|(_, name)| *name).collect();
                if drawn != listed {
                    faults.push(source.fault(index, format!("floor {floor} of the table has {listed:?}")));
                }
                continue;
            }
            let words = line.split_whitespace().filter(|word| word.ends_with(".rs"));
            let known = |word: &str| places(word).iter().any(|place| exists(place));
            faults.extend(
                words
                    .filter(|word| !known(word))
                    .map(|word| source.fault(index, format!("{word} does not exist"))),
            );
        }
    }
    faults
}

/// Returns the paths that a name in the diagrams may mean: it is relative to `CORE` or to its folder `connection`.
pub(super) fn places(word: &str) -> [String; 2] {
    [format!("{CORE}{word}"), format!("{CORE}connection/{word}")]
}

/// Returns the floor and the crate of each row of the table.
fn floors(text: &str) -> Vec<(&str, &str)> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
    let numbered = rows.filter(|(floor, _)| floor.parse::<u8>().is_ok());
    numbered.filter_map(|(floor, rest)| Some((floor, rest.split_once('`')?.0))).collect()
}

#[cfg(test)]
mod tests;
