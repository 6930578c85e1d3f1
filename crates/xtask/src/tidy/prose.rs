//! Beginnings of documentation comments: a noun or a verb, and not a question word.

use super::{Fault, Source};

/// Words with which no documentation comment may begin (CONTRIBUTING.md, "Prose").
const QUESTIONS: [&str; 10] =
    ["What", "Whether", "How", "Where", "Who", "Whom", "Whose", "Which", "When", "Why"];

/// Reports the documentation comments that begin with a question word.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust() && source.crate_folder().is_some()) {
        let mut inside = false;
        for (index, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let first = text.filter(|_| !inside).and_then(|text| text.split_whitespace().next());
            let question = first.filter(|word| QUESTIONS.contains(word));
            faults.extend(
                question.map(|word| source.fault(index, format!("a comment that begins with {word}"))),
            );
            inside = text.is_some();
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_begins_with_no_question() {
        let text = "//! How it works.\n\n/// Returns\n/// what it is.\nfn one() {}\n    /// Whether it is.\n";
        let source = |path: &str| Source { path: path.into(), text: text.into() };
        let found: Vec<_> =
            check(&[source("crates/wire/src/x.rs")]).into_iter().map(|fault| fault.place).collect();
        assert_eq!(found, ["crates/wire/src/x.rs:1", "crates/wire/src/x.rs:6"]);
        assert_eq!(check(&[source("docs/x.md"), source("peers/x/src/main.rs")]), []);
    }
}
