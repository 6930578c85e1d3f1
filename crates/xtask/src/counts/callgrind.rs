//! Runs of a program below callgrind, and what it writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `program NAME`, and counts the instructions in calls of functions that fit `pattern`. Returns the number that the program
/// prints, and the instructions of each function itself.
pub(super) fn run(program: &Path, name: &str, pattern: &str) -> Result<(u64, BTreeMap<String, u64>), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let written = folder.path().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command.env_remove("VALGRIND_OPTS");
    // Machines differ in the instructions for copies of blocks, and glibc chooses its `memcpy` by them.
    command.env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS");
    command.args(["--tool=callgrind", "--quiet", "--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--toggle-collect={pattern}"));
    command.arg(format!("--callgrind-out-file={}", written.display()));
    let output = command.arg(program).arg(name).output().map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let operations = said.trim().parse().ok().filter(|operations| *operations > 0);
    let operations =
        operations.ok_or_else(|| format!("{name}: no number of operations: {:?}", said.trim()))?;
    let text = fs::read_to_string(&written).map_err(|error| format!("{name}: {error}"))?;
    Ok((operations, functions(&text).map_err(|error| format!("{name}: {error}"))?))
}

/// Returns the instructions of each function itself, from callgrind's file without compressed names and positions.
fn functions(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            current = Some(name_of(name));
        } else if line.starts_with("calls=") {
            // The next line has the cost of the call, which the called function has as its own.
            lines.next();
        } else if let (Some(function), Some((_, cost))) = (&current, line.split_once(' '))
            && line.starts_with(|first: char| first.is_ascii_digit())
        {
            let cost = cost.trim().parse::<u64>().map_err(|_| format!("callgrind wrote {line:?}"))?;
            *functions.entry(function.clone()).or_default() += cost;
        }
    }
    functions.retain(|_, instructions| *instructions > 0);
    Ok(functions)
}

/// Returns a function's name without what differs between builds and calls: the hash of its symbol, the disambiguator of its crate,
/// and the depth of a recursion.
fn name_of(name: &str) -> String {
    let is_depth = |depth: &str| !depth.is_empty() && depth.bytes().all(|digit| digit.is_ascii_digit());
    let name = name.rsplit_once('\'').filter(|(_, depth)| is_depth(depth)).map_or(name, |(name, _)| name);
    let name = name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(name, |(name, _)| name);
    let mut rest = name;
    let mut short = String::with_capacity(name.len());
    // `[1234567890abcdef]` after the name of a crate.
    while let Some((before, after)) = rest.split_once('[') {
        short.push_str(before);
        match after.split_once(']') {
            Some((hash, after)) if is_hash(hash) => rest = after,
            _ => {
                short.push('[');
                rest = after;
            }
        }
    }
    short.push_str(rest);
    short
}

/// Returns whether a text is a number of up to 64 bits in hexadecimal, as compilers write hashes.
fn is_hash(text: &str) -> bool {
    (8..=16).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_own_instructions_alone() {
        let text = "version: 1\nevents: Ir\nsummary: 40\n\nob=/a\nfl=a.rs\nfn=one\n12 5\n13 7\ncfn=two\ncalls=3 20\n14 20\n15 1\n\n\
            fn=two\n20 20\n\nfn=one\n16 2\n\ntotals: 35\n";
        let expected = [("one", 15), ("two", 20)].map(|(name, instructions)| (name.to_owned(), instructions));
        assert_eq!(functions(text), Ok(BTreeMap::from(expected)));
        assert!(functions("fn=one\n12 5 6\n").is_err());
    }

    #[test]
    fn names_of_two_builds_are_the_same() {
        for (name, expected) in [
            ("anabranch_wire::frame::read::h0123456789abcdef", "anabranch_wire::frame::read"),
            ("anabranch_wire[5c1d2e3f4a5b6c7d]::read", "anabranch_wire::read"),
            ("<[u8]>::fill", "<[u8]>::fill"),
            ("walk'2", "walk"),
            ("tree::walk::h0123456789abcdef'2", "tree::walk"),
            ("hash::handle_short::h0123456789abcdef", "hash::handle_short"),
            ("<&'a str>::len", "<&'a str>::len"),
        ] {
            assert_eq!(name_of(name), expected);
        }
    }
}
