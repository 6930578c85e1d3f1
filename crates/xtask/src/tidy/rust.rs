//! Partial parser of Rust, which relies on rustfmt's layout.

/// Returns the line at which a file's inline tests start: the index of the first unindented `#[cfg(test)]`
/// before a module with a body. Returns the number of lines if there are no such tests.
pub(super) fn code_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let inline = |index: &usize| {
        let module = lines[index + 1..].iter().find(|line| !line.starts_with("#["));
        lines[*index] == "#[cfg(test)]"
            && module.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(inline).unwrap_or(lines.len())
}

/// Function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Index of the line with `fn`.
    pub(super) start: usize,
    /// Number of lines from the line with `fn` to the closing brace, both included.
    pub(super) lines: usize,
    /// Name of the function.
    pub(super) name: String,
}

/// Returns all functions of a formatted file. A nested function is counted separately and as part of the
/// outer one.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        // The signature ends with a body on the same line, with `;` or with an opening brace. The body ends
        // at the closing brace with the same indentation.
        let Some(end) = (start..lines.len()).find(|&at| {
            let ends = lines[at] == closing;
            let one_liner = at == start && line.ends_with(['}', ';']);
            let declaration =
                at > start && lines[at].starts_with(&format!("{indent})")) && lines[at].ends_with(';');
            ends || one_liner || declaration
        }) else {
            continue;
        };
        found.push(Function { start, lines: end - start + 1, name: name.to_owned() });
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(named) = rest.strip_prefix("fn ") {
            let end = named.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(&named[..end]);
        }
        let (word, after) = rest.split_once(' ')?;
        let modifier = matches!(word, "async" | "const" | "unsafe" | "extern" | "\"C\"")
            || word == "pub"
            || (word.starts_with("pub(") && word.ends_with(')'));
        if !modifier {
            return None;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_where_inline_tests_start() {
        assert_eq!(code_lines("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(code_lines("fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n"), 4);
        assert_eq!(
            code_lines("#[cfg(test)]\nfn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n}\n"),
            2
        );
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "\
pub(crate) async fn long(
    a: u8,
) -> u8 {
    if a {
    }
    0
}
trait T {
    fn declared(&self);
    fn also_declared(
        &self,
    ) -> u8;
    fn short(&self) {}
    const fn body(&self) {
        // fn comment
    }
}
";
        let measured: Vec<_> = functions(text).into_iter().map(|f| (f.name, f.start, f.lines)).collect();
        let expected =
            [("long", 0, 7), ("declared", 8, 1), ("also_declared", 9, 3), ("short", 12, 1), ("body", 13, 3)];
        assert_eq!(measured, expected.map(|(name, start, lines)| (name.to_owned(), start, lines)));
    }
}
