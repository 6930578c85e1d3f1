//! Text that is valid only on one machine: absolute paths, and package sources.

use super::{Fault, Source};

/// Folders of a particular machine. Each name is split in two, so that this check does not find it in this
/// file.
const PLACES: &[(&str, &str)] =
    &[("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/"), ("/wo", "rk/"), ("C:\\", "Users"), ("file:", "///")];

/// Settings that redirect package managers to other registries.
const SETTINGS: &[(&str, &str)] = &[
    ("index", "-url"),
    ("GOPRO", "XY="),
    ("replace", "-with"),
    ("trusted", "-host"),
    ("npm_config", "_registry"),
];

/// Registry in Cargo's lock files.
const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

/// Reports paths and settings of one machine in all text files, and registries other than crates.io in
/// Cargo's lock files.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let join = |table: &[(&str, &str)]| -> Vec<String> {
        table.iter().map(|(head, tail)| format!("{head}{tail}")).collect()
    };
    let (places, settings) = (join(PLACES), join(SETTINGS));
    let mut faults = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            if source.path.ends_with("Cargo.lock") {
                if line.contains("://") && !line.contains(CRATES_IO) {
                    faults.push(source.fault(index, "a source other than crates.io"));
                }
                continue;
            }
            if let Some(place) = places.iter().find(|place| starts_path(line, place)) {
                faults.push(source.fault(index, format!("`{place}` is a path of one machine")));
            }
            if let Some(setting) = settings.iter().find(|setting| line.contains(*setting)) {
                faults.push(source.fault(index, format!("`{setting}` is a setting of one machine")));
            }
        }
    }
    faults
}

/// Returns whether an absolute path in `line` starts with `place`. In URLs and relative paths, other text
/// precedes it.
fn starts_path(line: &str, place: &str) -> bool {
    let absolute = |at: usize| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')' | '$'))
    };
    line.match_indices(place).any(|(at, _)| absolute(at))
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn paths_and_settings_of_one_machine_are_found() {
        for (head, tail) in PLACES.iter().chain(SETTINGS) {
            let found = check(&[source("a.md", &format!("fine\nsee `{head}{tail}x`"))]);
            assert_eq!(places(&found), ["a.md:2"], "{head}{tail}");
        }
    }

    #[test]
    fn relative_paths_and_urls_are_fine() {
        let (head, tail) = PLACES[1];
        let text =
            format!("https://example.org{head}{tail}x ..{head}{tail} $DIR{head}{tail} docs{head}{tail}");
        assert_eq!(check(&[source("a.md", &text)]), []);
    }

    #[test]
    fn lock_files_name_crates_io_alone() {
        let lock = format!("source = \"registry+{CRATES_IO}\"\nsource = \"git+https://example.org/x\"\n");
        assert_eq!(places(&check(&[source("peers/a/Cargo.lock", &lock)])), ["peers/a/Cargo.lock:2"]);
    }
}
