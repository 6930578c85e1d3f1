//! `cargo xtask interface`: compares the public interface of each library with its listing in
//! `docs/interface/`, so that changes are visible in review. Types that cannot grow, and types that appear in
//! the interface but cannot be named, are errors unless `docs/interface/exemptions.txt` gives a reason.

mod exemptions;
mod growth;
mod reach;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

use self::exemptions::Exemptions;

/// Libraries for use by other projects.
const LIBRARIES: [&str; 9] = [
    "anabranch-wire",
    "anabranch-tls",
    "anabranch-recovery",
    "anabranch-transport",
    "anabranch-http3",
    "anabranch-qlog",
    "anabranch",
    "anabranch-h3",
    "anabranch-seeded",
];
/// Folder with the listings.
const FOLDER: &str = "docs/interface";

/// Environment variable that makes this program act as rustdoc.
const AS_RUSTDOC: &str = "ANABRANCH_XTASK_AS_RUSTDOC";

/// Options of the comparison.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the listings instead of comparing
    #[arg(long)]
    write: bool,
}

/// Compares the interfaces with their listings, or writes the listings. Returns true if they are equal and no
/// type breaks a rule without an exemption.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let mut same = true;
    let mut exemptions = Exemptions::read(root)?;
    let mut rigid = Vec::new();
    for library in LIBRARIES {
        let listing = list(root, library)?;
        rigid.extend(growth::rigid(&listing, &mut exemptions));
        let file = root.join(FOLDER).join(format!("{library}.txt"));
        if arguments.write {
            std::fs::create_dir_all(root.join(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
            std::fs::write(&file, listing).map_err(|error| format!("{}: {error}", file.display()))?;
            continue;
        }
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let (gone, new) = difference(&known, &listing);
        println!(
            "interface {library}: {} items, {} gone, {} new",
            listing.lines().count(),
            gone.len(),
            new.len()
        );
        gone.iter().for_each(|item| println!("- {item}"));
        new.iter().for_each(|item| println!("+ {item}"));
        same &= gone.is_empty() && new.is_empty();
    }
    if !same {
        println!("if this is meant: cargo xtask interface --write, and a line in CHANGELOG.md");
    }
    let unnamed = reach::unnamed(&documented(root)?, &mut exemptions);
    rigid.iter().for_each(|path| println!("{path}: not #[non_exhaustive], and not in {}", exemptions::FILE));
    unnamed.iter().for_each(|what| println!("anabranch does not re-export {what}"));
    let unused: Vec<_> = exemptions.unused().collect();
    unused.iter().for_each(|path| println!("{}: {path} needs no line", exemptions::FILE));
    Ok(same && rigid.is_empty() && unnamed.is_empty() && unused.is_empty())
}

/// Reads rustdoc's JSON output for each library. Returns it by the names of the crates.
fn documented(root: &Path) -> Result<BTreeMap<String, Value>, String> {
    let read = |library: &str| {
        let file = json_file(root, library);
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok((library.replace('-', "_"), value))
    };
    LIBRARIES.into_iter().map(read).collect()
}

/// Returns the file that rustdoc writes for a library.
fn json_file(root: &Path, library: &str) -> PathBuf {
    crate::ours::target(root).join(format!("doc/{}.json", library.replace('-', "_")))
}

/// Runs rustdoc with this process's arguments, if cargo calls this program as rustdoc. The JSON output of
/// rustdoc is unstable and needs RUSTC_BOOTSTRAP. Only rustdoc may see that variable: build scripts check for
/// it, and would rebuild everything.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    std::env::var_os(AS_RUSTDOC)?;
    let mut rustdoc = Command::new("rustdoc");
    let status = rustdoc.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lists the public items of a library, sorted. Implementations that every type has are omitted.
fn list(root: &Path, library: &str) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(cargo)
        .args(["rustdoc", "--quiet", "--all-features", "--package", library, "--lib"])
        .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env("RUSTDOC", &own)
        .env(AS_RUSTDOC, "1")
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo rustdoc: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo rustdoc of {library}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let interface = public_api::Builder::from_rustdoc_json(json_file(root, library))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| format!("{library}: {error}"))?;
    let mut items: Vec<String> = interface.items().map(ToString::to_string).collect();
    items.sort();
    items.dedup();
    Ok(items.join("\n") + "\n")
}

/// Returns the items only in `known`, and the items only in `now`.
fn difference<'a>(known: &'a str, now: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let only = |of: &'a str, other: &str| -> Vec<&'a str> {
        let other: std::collections::BTreeSet<&str> = other.lines().collect();
        of.lines().filter(|item| !other.contains(item)).collect()
    };
    (only(known, now), only(now, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_come_and_go_are_named() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), (vec!["a"], vec!["c"]));
        assert_eq!(difference("a\nb\n", "b\na\n"), (vec![], vec![]));
    }
}
