//! Performance figures in the README: they must equal those of the table in docs/performance.md, and state
//! when and where they were measured.

use super::{Fault, Source};

/// Document with the table, and the document that quotes it.
const TABLE: &str = "docs/performance.md";
const QUOTES: &str = "README.md";
/// Lines before and after the text that `anabranch-bench -- all --write` writes; `BEGIN` is a prefix.
const BEGIN: &str = "<!-- measured:";
const END: &str = "<!-- /measured -->";
/// Prefix of that text's first line.
const HEAD: &str = "Measured on ";

/// Reports documents without a place for figures, and quoted lines that the table does not contain.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let of = |name: &str| sources.iter().find(|source| source.path == name);
    let (Some(table), Some(quotes)) = (of(TABLE), of(QUOTES)) else { return Vec::new() };
    let mut faults = Vec::new();
    let measured: Vec<&str> = measured(table).map(|(_, line)| line).collect();
    for source in [table, quotes] {
        if !self::measured(source).any(|(_, line)| line.starts_with(HEAD)) {
            let what = format!("nothing that begins with `{HEAD}` stands between `{BEGIN} …` and `{END}`");
            faults.push(source.fault(0, what));
        }
    }
    for (index, line) in self::measured(quotes) {
        if !line.is_empty() && !measured.contains(&line) {
            faults.push(
                quotes.fault(index, format!("`{line}` is not in {TABLE}: `anabranch-bench -- all --write`")),
            );
        }
    }
    faults
}

/// Returns the lines between the markers, with their indices.
fn measured(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(BEGIN)).skip(1);
    lines.take_while(|(_, line)| !line.starts_with(END))
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    fn with(table: &str, quotes: &str) -> Vec<Fault> {
        let text =
            |inside: &str| format!("# x\n<!-- measured: by -->\n{inside}\n<!-- /measured -->\n| a | 9 |\n");
        check(&[source(TABLE, &text(table)), source(QUOTES, &text(quotes))])
    }

    #[test]
    fn a_figure_that_the_table_does_not_have_is_found() {
        let table = "Measured on a day\n\n| a | 1 |\n| b | 2 |";
        assert_eq!(with(table, "Measured on a day\n| b | 2 |"), []);
        let faults = with(table, "Measured on a day\n| b | 3 |\n| a | 1 |");
        assert_eq!(places(&faults), ["README.md:4"]);
        assert!(faults[0].what.contains("`| b | 3 |` is not in docs/performance.md"));
        // The first line has another day, and the second is from below the end marker.
        assert_eq!(
            places(&with(table, "Measured on another day\n| a | 9 |")),
            ["README.md:3", "README.md:4"]
        );
    }

    #[test]
    fn figures_without_a_day_are_found() {
        assert_eq!(places(&with("| a | 1 |", "| a | 1 |")), ["docs/performance.md:1", "README.md:1"]);
        let bare = [source(TABLE, "x"), source(QUOTES, "x")];
        assert_eq!(check(&bare).len(), 2);
    }
}
