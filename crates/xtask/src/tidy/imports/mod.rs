//! Imports between the files of a crate: there are no cycles, except between a module and its own children.

mod circles;
mod graph;

use std::collections::BTreeMap;

use self::circles::circles;
use self::graph::Graph;
use super::{Fault, Source};

/// Reports crates whose files import each other in a cycle.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    graphs(sources).iter().filter_map(|(name, graph)| of(name, graph)).collect()
}

/// Formats the imports of a crate, or of all crates, as Mermaid flowcharts. Arrows that are part of a cycle
/// are thick.
pub(super) fn draw(sources: &[Source], only: Option<&str>) -> String {
    let graphs = graphs(sources);
    let wanted = graphs.iter().filter(|(name, _)| only.is_none_or(|only| only == name.as_str()));
    wanted.map(|(name, graph)| graph.mermaid(name, &circles(graph))).collect()
}

fn of(name: &str, graph: &Graph) -> Option<Fault> {
    let circles = circles(graph);
    let files: usize = circles.iter().map(Vec::len).sum();
    let said = circles.iter().map(|circle| circle.join(" ")).collect::<Vec<_>>().join("; ");
    let what = format!("{files} files import each other in circles: {said}");
    (files > 0).then(|| Fault { place: format!("crates/{name}"), what })
}

/// Returns the import graph of each crate, without its tests.
fn graphs(sources: &[Source]) -> BTreeMap<String, Graph> {
    let mut crates: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        let Some(name) = source.crate_folder() else { continue };
        if let Some(file) = source.path.strip_prefix(&format!("crates/{name}/src/")) {
            crates.entry(name.to_owned()).or_default().push((file, &source.text));
        }
    }
    crates.into_iter().map(|(name, files)| (name, Graph::of(&files))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| source(&format!("crates/a/src/{path}"), text)).collect();
        check(&sources).into_iter().map(|fault| fault.what).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let circle = found(&[
            ("lib.rs", "mod one;\nmod two;\n"),
            ("one.rs", "use crate::two::Two;\npub struct One;\n"),
            ("two.rs", "pub struct Two;\nfn f(_: super::one::One) {}\n"),
        ]);
        assert_eq!(circle, ["2 files import each other in circles: one.rs two.rs"]);
    }

    #[test]
    fn a_module_and_its_children_are_none() {
        let child = ("one/child.rs", "use super::One;\npub struct Child;\n");
        assert!(
            found(&[("one/mod.rs", "mod child;\nuse self::child::Child;\npub struct One;\n"), child])
                .is_empty()
        );
    }

    #[test]
    fn what_a_module_exports_again_is_imported_from_where_it_is() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\npub use one::One;\n"),
            ("one/mod.rs", "mod deep;\npub use self::deep::*;\n"),
            ("one/deep.rs", "use crate::two::Two;\npub struct One;\n"),
            ("two.rs", "pub struct Two;\npub struct Other(crate::One);\n"),
        ];
        assert_eq!(found(&files), ["2 files import each other in circles: one/deep.rs two.rs"]);
    }

    #[test]
    fn tests_may_import_whatever_they_test() {
        let files = [
            ("one.rs", "pub struct One;\n#[cfg(test)]\nmod tests {\n    use crate::two::Two;\n}\n"),
            ("two.rs", "use crate::one::One;\npub struct Two;\n"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn drawings_name_files() {
        let sources = [
            source("crates/a/src/one.rs", "use crate::two::Two;\n"),
            source("crates/a/src/two.rs", "pub struct Two;\n"),
        ];
        assert!(draw(&sources, Some("a")).contains("one.rs"));
        assert_eq!(draw(&sources, Some("b")), "");
    }
}
