//! Build profiles of the separate workspaces that `.ci/run` checks in the project's target folder. With the project's own profile they take the
//! libraries that other steps have built; with another one Cargo builds everything a second time.

use toml::{Table, Value};

use super::{Fault, Source};

const ROOT: &str = "Cargo.toml";
const FOLDERS: [&str; 2] = ["examples/own-algorithms", "fuzz"];
/// Key of the overrides for single packages.
const PACKAGES: &str = "package";
/// Name of the override for all other packages.
const OTHERS: &str = "*";

/// Reports workspaces whose profile for development is not the project's, as far as it concerns packages in their lock file.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let text =
        |path: &str| sources.iter().find(|source| source.path == path).map(|source| source.text.as_str());
    let Some(expected) = text(ROOT).and_then(profile) else { return Vec::new() };
    let differs = |folder: &&str| {
        let manifest = text(&format!("{folder}/{ROOT}"))?;
        let lock = text(&format!("{folder}/Cargo.lock"))?;
        (profile(manifest) != Some(applicable(&expected, lock))).then(|| Fault {
            place: format!("{folder}/{ROOT}"),
            what: format!("its `profile.dev` is not that of {ROOT}, so that CI builds its libraries twice"),
        })
    };
    FOLDERS.iter().filter_map(differs).collect()
}

/// Returns the profile for development of a manifest.
fn profile(manifest: &str) -> Option<Table> {
    let manifest: Table = toml::from_str(manifest).ok()?;
    manifest.get("profile")?.get("dev")?.as_table().cloned()
}

/// Returns the profile without overrides for packages that are not in the lock file.
fn applicable(profile: &Table, lock: &str) -> Table {
    let mut profile = profile.clone();
    if let Some(Value::Table(packages)) = profile.get_mut(PACKAGES) {
        packages.retain(|name, _| name == OTHERS || lock.contains(&format!("name = \"{name}\"\n")));
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn profiles_of_other_workspaces_are_those_of_the_project() {
        let manifest = |others: u8| {
            format!(
                "[profile.dev]\nopt-level = 1\n[profile.dev.package.\"*\"]\nopt-level = {others}\n\
                 [profile.dev.package.bytes]\nopt-level = 1\n"
            )
        };
        let root = format!("{}[profile.dev.package.absent]\nopt-level = 3\n", manifest(0));
        let lock = source("fuzz/Cargo.lock", "[[package]]\nname = \"bytes\"\n");
        let of = |others| {
            [source("Cargo.toml", &root), source("fuzz/Cargo.toml", &manifest(others)), lock.clone()]
        };
        assert_eq!(check(&of(0)), []);
        assert_eq!(places(&check(&of(1))), ["fuzz/Cargo.toml"]);
    }
}
