//! Arrows in the diagrams of `ARCHITECTURE.md`. `a.rs ─> b.rs` means that `a.rs` calls a function that `b.rs`
//! defines. `┄>` shows data that reach a file through other files, which is not checked.

use std::collections::BTreeMap;

use super::maps::{MAP, places};
use super::{Fault, Source, rust};

const ARROW: &str = "─>";
/// Characters with which a branch begins, below the file whose calls the branch shows.
const BRANCHES: [char; 2] = ['├', '└'];
/// Names that too many types have: a call of one of them does not show which file it leads to.
const COMMON: [&str; 6] = ["new", "default", "fmt", "from", "len", "is_empty"];

/// Reports each arrow from a file to another one if the first file calls no function of the second.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let texts: BTreeMap<&str, &str> =
        sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let find = |word: &str| places(word).into_iter().find_map(|place| texts.get(place.as_str()).copied());
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.path == MAP) {
        for (index, from, to) in arrows(&source.text) {
            // Files that do not exist are reported by `maps`.
            if let (Some(caller), Some(callee)) = (find(&from), find(&to))
                && !calls(caller, callee)
            {
                faults.push(source.fault(index, format!("{from} calls no function of {to}")));
            }
        }
    }
    faults
}

/// Returns whether one text calls a function that the other defines.
fn calls(caller: &str, callee: &str) -> bool {
    let code = |text: &str| text.lines().take(rust::code_lines(text)).collect::<Vec<_>>().join("\n");
    let (caller, callee) = (code(caller), code(callee));
    let defined = callee.lines().filter_map(function);
    let mut names = defined.filter(|name| !COMMON.contains(name));
    names.any(|name| {
        let is_call = |at: usize| {
            let before = caller[..at].chars().next_back();
            let defines = caller[..at].ends_with("fn ");
            !defines && before.is_some_and(|c| !c.is_alphanumeric() && c != '_')
        };
        caller.match_indices(&format!("{name}(")).any(|(at, _)| is_call(at))
    })
}

/// Returns the name of the function that a line defines.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_definition = before.is_empty() || before.ends_with(' ');
    (is_definition && !name.is_empty() && !before.trim_start().starts_with("//")).then_some(name)
}

/// A word of a diagram that names a file, with its columns.
type Name<'a> = (std::ops::Range<usize>, &'a str);

/// Returns the arrows of a text's diagrams, each with the index of its line.
fn arrows(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let (mut is_drawing, mut above) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_drawing = !is_drawing && line == "```text";
            above.clear();
            continue;
        }
        let names = if is_drawing { names(line) } else { Vec::new() };
        let Some((first, _)) = names.first() else { continue };
        let branch = line.chars().take(first.start).position(|c| BRANCHES.contains(&c));
        let root =
            branch.and_then(|column| above.iter().find(|(columns, _): &&Name<'_>| columns.contains(&column)));
        if let Some((_, from)) = root {
            found.push((index, (*from).to_owned(), names[0].1.to_owned()));
        }
        for pair in names.windows(2) {
            let between: String =
                line.chars().skip(pair[0].0.end).take(pair[1].0.start - pair[0].0.end).collect();
            if between.trim() == ARROW {
                found.push((index, pair[0].1.to_owned(), pair[1].1.to_owned()));
            }
        }
        if branch.is_none() {
            above = names;
        }
    }
    found
}

/// Returns the words of a line that name files of Rust.
fn names(line: &str) -> Vec<Name<'_>> {
    let mut column = 0;
    let mut found = Vec::new();
    for word in line.split(' ') {
        let width = word.chars().count();
        if word.ends_with(".rs") {
            found.push((column..column + width, word));
        }
        column += width + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    const DRAWN: &str = "```text\n\
        send/mod.rs ─> send/packet.rs ─> send/frames.rs   text\n     \
             │\n     \
             └─> send/owed.rs\n\
        stream/buffer.rs ┄> send/mod.rs\n\
        ```\n";

    fn faults(owed: &str) -> Vec<Fault> {
        let file = |name: &str, text: &str| source(&format!("crates/transport/src/{name}"), text);
        check(&[
            source(MAP, DRAWN),
            file("connection/send/mod.rs", "fn go(&self) {\n    self.seal(1);\n    self.due();\n}\n"),
            file("connection/send/packet.rs", "fn seal(&self, n: u8) {\n    fill(n);\n}\n"),
            file("connection/send/frames.rs", "fn fill(n: u8) {}\nfn new() {}\n"),
            file("connection/send/owed.rs", owed),
            file("stream/buffer.rs", ""),
        ])
    }

    #[test]
    fn arrows_that_are_no_calls_are_faults() {
        assert_eq!(places(&faults("fn due() {}\n")), [] as [&str; 0]);
        assert_eq!(places(&faults("fn overdue() {}\n")), ["ARCHITECTURE.md:4"]);
        assert_eq!(places(&faults("fn new() {}\nfn go(&self) {}\n")), ["ARCHITECTURE.md:4"]);
    }

    #[test]
    fn chains_and_branches_are_read() {
        let read: Vec<_> = arrows(DRAWN).into_iter().map(|(_, from, to)| format!("{from} {to}")).collect();
        assert_eq!(
            read,
            ["send/mod.rs send/packet.rs", "send/packet.rs send/frames.rs", "send/mod.rs send/owed.rs"]
        );
    }
}
