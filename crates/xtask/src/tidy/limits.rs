//! Limits: in the crates that handle a peer's input, a test must name each `MAX_…` constant, unless the
//! constant does not limit that input.

use std::collections::BTreeSet;

use super::rust::code_lines;
use super::{Fault, Source};

/// Folders below `crates` whose input comes from peers.
const FED: &[&str] = &["wire", "tls", "recovery", "transport", "http3", "qlog"];

/// Constants that do not limit a peer's input: end of the file's path, name, and meaning.
const OTHERS: &[(&str, &str, &str)] = &[
    ("wire/src/frame/field.rs", "MAX_SHORT_LEN", "what two bytes of a varint hold"),
    ("wire/src/header/outgoing.rs", "MAX_LONG_LENGTH", "what two bytes of a varint hold"),
    ("wire/src/id.rs", "MAX_CID_LEN", "RFC 9000 §17.2"),
    ("wire/src/parameters/mod.rs", "MAX_ACK_DELAY_EXPONENT", "RFC 9000 §18.2"),
    ("tls/src/hkdf.rs", "MAX_SECRET_LEN", "the longest hash in use"),
    ("recovery/src/congestion/bbr/mod.rs", "MAX_QUANTUM", "a sender's burst"),
    ("recovery/src/congestion/bbr1/mod.rs", "MAX_QUANTUM", "a sender's burst"),
    ("recovery/src/congestion/bbr/phase.rs", "MAX_RENO_ROUNDS", "a controller's time"),
    ("recovery/src/congestion/hystart.rs", "MAX_RTT_THRESH", "RFC 9406 §4.3"),
    ("recovery/src/congestion/hystart.rs", "MAX_FILL", "a ratio"),
    ("recovery/src/recovery/losses.rs", "MAX_REORDERING_2022", "a time"),
    ("recovery/src/sent.rs", "MAX_SKIP", "what this end's own sender does"),
    ("transport/src/connection/ack_frequency.rs", "MAX_ACK_DELAY_LIMIT", "RFC 9000 §18.2"),
    ("transport/src/connection/parts/ack_request.rs", "MAX_DELAY_2022", "a time that this end asks for"),
    ("transport/src/connection/parts/closing.rs", "MAX_REASON", "this end's own words"),
    ("transport/src/path/set/failure.rs", "MAX_OLDEST", "how far one search looks"),
    ("transport/src/connection/send/deal.rs", "MAX_LANES", "batches of this end's own sender"),
    ("transport/src/connection/send/named.rs", "MAX_OVERHEAD", "the length of a header"),
    ("transport/src/datagram_io.rs", "MAX_BATCH_BYTES", "what an operating system takes at once"),
    ("transport/src/datagram_io.rs", "MAX_SPARE", "unused memory of a driver's buffer"),
    ("transport/src/endpoint/router.rs", "MAX_CID_ATTEMPTS", "draws of this end's own randomness"),
    ("transport/src/endpoint/stateless.rs", "MAX_REFUSAL_LEN", "the length of a packet of this end"),
    ("transport/src/schedule/blest.rs", "MAX_LAMBDA", "a factor"),
    ("transport/src/stream/table.rs", "MAX_NAMED_STREAMS", "identifiers that a header can name"),
    ("http3/src/priority.rs", "MAX_URGENCY", "RFC 9218 §4.1"),
    ("http3/src/qpack/encoder.rs", "MAX_LINE_PART", "what this end's own encoder does"),
    ("http3/src/qpack/encoder.rs", "MAX_SETS", "what this end's own encoder remembers"),
    ("http3/src/settings.rs", "MAX_FIELD_SECTION_SIZE", "RFC 9114 §7.2.4.1"),
    ("http3/src/varints.rs", "MAX_BYTES", "the length of two varints"),
];

/// Constant and its location.
struct Limit<'a> {
    name: &'a str,
    source: &'a Source,
    index: usize,
}

/// Reports limits that no test names, and entries of [`OTHERS`] that a test names or that do not exist.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let fed =
        |source: &&Source| source.is_rust() && source.crate_folder().is_some_and(|name| FED.contains(&name));
    let fed: Vec<&Source> = sources.iter().filter(fed).collect();
    let limits: Vec<Limit<'_>> = fed.iter().flat_map(|source| limits(source)).collect();
    let named: BTreeSet<&str> = fed.iter().flat_map(|source| words(tests(source))).collect();
    let mut faults = Vec::new();
    for Limit { name, source, index } in &limits {
        let is_other = OTHERS.iter().any(|(file, other, _)| other == name && source.path.ends_with(file));
        match (named.contains(name), is_other) {
            (false, false) => faults.push(source.fault(*index, format!("no test names `{name}`"))),
            (true, true) => {
                faults
                    .push(source.fault(*index, format!("`{name}` is an exception in tidy, and has a test")));
            }
            _ => {}
        }
    }
    for (file, other, _) in OTHERS {
        let exists = limits.iter().any(|limit| limit.name == *other && limit.source.path.ends_with(file));
        if let (false, Some(tidy)) =
            (exists, sources.iter().find(|source| source.path.ends_with("tidy/limits.rs")))
        {
            faults.push(tidy.fault(0, format!("`{other}` of {file} does not exist")));
        }
    }
    faults
}

/// Describes the number of limits, and the number that tests name.
pub(super) fn summary(sources: &[Source]) -> String {
    let fed =
        |source: &&Source| source.is_rust() && source.crate_folder().is_some_and(|name| FED.contains(&name));
    let count = sources.iter().filter(fed).flat_map(limits).count();
    format!(
        "{count} limits, {} of them named by a test and {} none on a peer",
        count.saturating_sub(OTHERS.len()),
        OTHERS.len()
    )
}

/// Returns the `MAX_…` constants of a file, except those of its tests.
fn limits(source: &Source) -> Vec<Limit<'_>> {
    let code = if source.is_test() { 0 } else { code_lines(&source.text) };
    let constants = source.text.lines().take(code).enumerate().filter_map(|(index, line)| {
        let (before, after) = line.split_once("const MAX_")?;
        let before = before.trim();
        let declared = before.is_empty() || before.starts_with("pub");
        let end = line.len() - after.len();
        let len = after.find(|c: char| !is_word(c)).filter(|len| after[*len..].starts_with(':'))?;
        declared.then(|| Limit { name: &line[end - "MAX_".len()..end + len], source, index })
    });
    constants.collect()
}

/// Returns the part of a file that is compiled only for tests.
fn tests(source: &Source) -> &str {
    if source.is_test() {
        return &source.text;
    }
    let code = code_lines(&source.text);
    let start = source.text.split_inclusive('\n').take(code).map(str::len).sum::<usize>();
    source.text.get(start..).unwrap_or_default()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| word.starts_with("MAX_"))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn bounds_that_no_test_names_are_faults() {
        let sources = [
            source("crates/transport/src/a.rs", "/// A bound.\npub(crate) const MAX_THINGS: usize = 4;\n"),
            source(
                "crates/transport/src/b.rs",
                "const MAX_OTHER: u64 = 4;\n#[cfg(test)]\nmod tests {\n    use super::MAX_OTHER;\n}\n",
            ),
            source("crates/http3/src/c.rs", "    const MAX_INNER: u64 = 4;\nfn f() -> u64 { MAX_INNER }\n"),
            source("crates/http3/tests/c.rs", "use a::MAX_THINGS_AT_ONCE;\n"),
            source("crates/cli/src/d.rs", "const MAX_ARGUMENTS: usize = 4;\n"),
        ];
        assert_eq!(places(&check(&sources)), ["crates/transport/src/a.rs:2", "crates/http3/src/c.rs:1"]);
    }

    #[test]
    fn exceptions_are_exceptions() {
        let exempt = source("crates/http3/src/priority.rs", "const MAX_URGENCY: u8 = 7;\n");
        assert_eq!(check(std::slice::from_ref(&exempt)), []);
        let test = source("crates/http3/src/tests.rs", "MAX_URGENCY");
        assert_eq!(check(&[exempt, test]).len(), 1, "it has a test after all");
        let tidy = source("crates/xtask/src/tidy/limits.rs", "");
        assert_eq!(check(&[tidy]).len(), OTHERS.len(), "none of them exists");
    }
}
