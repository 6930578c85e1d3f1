//! Crate arrows: a crate uses only crates on lower floors (the table of `ARCHITECTURE.md`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Fault;

/// Package names and their floors.
const FLOORS: &[(&str, u8)] = &[
    ("anabranch-wire", 1),
    ("anabranch-seeded", 2),
    ("anabranch-tls", 2),
    ("anabranch-recovery", 2),
    ("anabranch-transport", 3),
    ("anabranch-http3", 4),
    ("anabranch-qlog", 5),
    ("anabranch", 6),
    ("anabranch-lab", 6),
    ("anabranch-h3", 7),
    ("anabranch-cli", 7),
    ("anabranch-bench", 7),
    ("anabranch-python", 7),
    ("anabranch-ffi", 7),
    // Tasks and fuzz targets are not part of the house; nothing may use them.
    ("xtask", 8),
];

/// Its randomness is worthless as protection: only what never meets a network may be built on it.
const SEEDED: &str = "anabranch-seeded";
/// Those that may.
const SEEDED_USERS: &[&str] = &["anabranch-lab", "anabranch-bench"];

/// What cargo knows about the workspace's manifests.
pub(super) fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Dependencies inside the workspace that do not point downwards.
pub(super) fn check(metadata: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in array(&metadata["packages"]) {
        let name = text(&package["name"]);
        let place = format!("package {name}");
        let Some(floor) = floor(name) else {
            faults.push(Fault { place, what: "has no floor in crates/xtask/src/tidy/arrows.rs".to_owned() });
            continue;
        };
        for dependency in array(&package["dependencies"]).iter().filter(|it| it["path"].is_string()) {
            let used = text(&dependency["name"]);
            if used == SEEDED && dependency["kind"] != "dev" && !SEEDED_USERS.contains(&name) {
                let what = format!("uses {used}, which only {} may", SEEDED_USERS.join(" and "));
                faults.push(Fault { place: place.clone(), what });
                continue;
            }
            if is_exempt(dependency) || self::floor(used).is_some_and(|lower| lower < floor) {
                continue;
            }
            faults.push(Fault {
                place: place.clone(),
                what: format!("uses {used}, which is not on a lower floor"),
            });
        }
    }
    faults
}

/// Tests may use the lab, and seeded TLS.
fn is_exempt(dependency: &Value) -> bool {
    dependency["kind"] == "dev" && (dependency["name"] == "anabranch-lab" || dependency["name"] == SEEDED)
}

fn floor(package: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == package).map(|(_, floor)| *floor)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({ "packages": [{ "name": name, "dependencies": dependencies }] })
    }

    fn uses(name: &str, kind: &Value, features: &Value) -> Value {
        json!([{ "name": name, "path": "somewhere", "kind": kind, "features": features }])
    }

    #[test]
    fn arrows_point_downwards() {
        let plain = |user, used| check(&package(user, &uses(used, &Value::Null, &json!([]))));
        assert_eq!(plain("anabranch-transport", "anabranch-wire"), []);
        assert_eq!(plain("anabranch-cli", "anabranch-lab"), []);
        for (user, used) in [
            ("anabranch-wire", "anabranch-transport"),
            ("anabranch-tls", "anabranch-recovery"),
            ("anabranch-lab", "anabranch"),
            ("anabranch-cli", "anabranch-bench"),
            ("anabranch-cli", "xtask"),
            ("anabranch-cli", "unheard-of"),
        ] {
            assert_eq!(plain(user, used).len(), 1, "{user} -> {used}");
        }
    }

    #[test]
    fn tests_may_use_the_lab() {
        let tests = |used| check(&package("anabranch-tls", &uses(used, &json!("dev"), &json!([]))));
        assert_eq!(tests("anabranch-lab"), []);
        assert_eq!(tests("anabranch-seeded"), []);
        assert_eq!(tests("anabranch-transport").len(), 1);
    }

    #[test]
    fn what_meets_a_network_has_no_seeded_tls() {
        for (user, allowed) in [
            ("anabranch-lab", true),
            ("anabranch-bench", true),
            ("anabranch", false),
            ("anabranch-cli", false),
            ("anabranch-transport", false),
        ] {
            for kind in [Value::Null, json!("build")] {
                let faults = check(&package(user, &uses(SEEDED, &kind, &json!([]))));
                assert_eq!(faults.is_empty(), allowed, "{user}");
            }
        }
    }

    #[test]
    fn registry_crates_have_no_floor_and_crates_of_ours_need_one() {
        assert_eq!(check(&package("anabranch-wire", &json!([{ "name": "bytes", "kind": null }]))), []);
        assert_eq!(check(&package("anabranch-attic", &json!([]))).len(), 1);
    }
}
