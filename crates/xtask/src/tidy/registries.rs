//! Registries: a module that a registry lists is named in one file and on one line only.

use super::{Fault, Source};

/// First line of a registry.
const BEGIN: &str = "registry! {";
/// Prefixes of re-exports. They are allowed, because other code may use items of a registered file.
const EXPORTS: [&str; 2] = ["pub use ", "pub(crate) use "];

/// Returns a fault for each line outside of a registry, in the same file, that declares or names a module of
/// the registry.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let files: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    sources.iter().filter(|source| source.is_rust()).flat_map(|source| of(source, &files)).collect()
}

fn of(source: &Source, files: &[&str]) -> Vec<Fault> {
    let lines: Vec<&str> = source.text.lines().collect();
    let Some(begin) = lines.iter().position(|line| *line == BEGIN) else { return Vec::new() };
    let length = lines[begin..].iter().position(|line| *line == "}").unwrap_or_default();
    let registry = begin..=begin + length;
    let folder = source.path.trim_end_matches("mod.rs");
    let is_file = |name: &&str| {
        files.contains(&format!("{folder}{name}.rs").as_str())
            || files.contains(&format!("{folder}{name}/mod.rs").as_str())
    };
    let entries =
        lines[registry.clone()].iter().map(|line| line.trim()).filter(|line| !line.starts_with("//"));
    let modules: Vec<&str> = entries.flat_map(declared).filter(is_file).collect();
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim();
        let exempt = registry.contains(&index)
            || code.starts_with("//")
            || EXPORTS.iter().any(|export| code.starts_with(export));
        let again = |name: &&&str| code == format!("mod {name};") || has_path(code, name);
        if let Some(name) = modules.iter().find(again).filter(|_| !exempt) {
            faults.push(source.fault(index, format!("`{name}` is in the registry, and in this line again")));
        }
    }
    faults
}

/// Returns the modules that a line of a registry declares: the name at its start, and the one after `mod`.
fn declared(line: &str) -> impl Iterator<Item = &str> {
    let first = words(line).next().filter(|_| line.starts_with(|letter: char| letter.is_ascii_lowercase()));
    let behind = line.split(" mod ").nth(1).and_then(|rest| words(rest).next());
    first.into_iter().chain(behind)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// Returns whether `code` contains `name::` as a word.
fn has_path(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn places(registry: &str) -> Vec<String> {
        let files =
            ["fast.rs", "slow/mod.rs", "help.rs"].map(|name| source(&format!("crates/a/src/b/{name}"), ""));
        let sources = [&[source("crates/a/src/b/mod.rs", registry)], &files[..]].concat();
        check(&sources).into_iter().map(|fault| fault.to_string()).collect()
    }

    const REGISTRY: &str = "registry! {\n    /// The help:: of all.\n    fast::Fast = \"fast\";\n    Slow(help::Like<slow::Slow>) = \"slow\" in mod slow;\n}\n";

    #[test]
    fn one_line_is_enough() {
        let exported =
            "mod help;\npub use fast::Speed;\n// mod fast;\nfn f(fast: u8) { breakfast::eat(fast) }\n";
        assert!(places(&format!("{exported}{REGISTRY}")).is_empty());
    }

    #[test]
    fn a_second_line_is_a_fault() {
        let said = "crates/a/src/b/mod.rs:1: `fast` is in the registry, and in this line again";
        assert_eq!(places(&format!("mod fast;\n{REGISTRY}")), [said]);
        assert_eq!(places(&format!("use self::fast::Fast;\n{REGISTRY}")), [said]);
        assert_eq!(places(&format!("mod slow;\n{REGISTRY}")).len(), 1);
    }
}
