//! Tests with maps that contain errors.

use super::*;

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}

#[test]
fn names_that_lead_nowhere_are_faults() {
    let map = "| 1 | `wire` | bytes |\n| 2 | `tls` | keys |\n```text\n2  tls recovery\n1  wire\n```\n\
               ```text\nstream/send.rs ─> send/mod.rs\n   bytes gone.rs\n```\n";
    let glossary = "| a | b | `wire/src/id.rs`, `tls/src` |\n| c | d | `wire/src/gone.rs` |\n";
    let sources = [
        source(MAP, map),
        source(GLOSSARY, glossary),
        source("crates/wire/src/id.rs", ""),
        source("crates/tls/src/lib.rs", ""),
        source("crates/transport/src/stream/send.rs", ""),
        source("crates/transport/src/connection/send/mod.rs", ""),
    ];
    let places: Vec<_> = check(&sources).into_iter().map(|fault| fault.place).collect();
    assert_eq!(places, ["docs/glossary.md:2", "ARCHITECTURE.md:4", "ARCHITECTURE.md:9"]);
}
