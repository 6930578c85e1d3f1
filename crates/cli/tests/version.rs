//! Version of the lab in a build, computed in a workspace made for the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "../build/version.rs"]
mod version;

use std::path::Path;
use std::process::Command;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Creates a workspace in which `lab` depends on `transport`, and `transport` on `wire`. `lab` does not
/// depend on `cli`.
fn workspace() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, uses) in [("lab", "transport"), ("transport", "wire"), ("wire", "nothing"), ("cli", "lab")] {
        let manifest =
            format!("[package]\n\n[dependencies]\nanabranch-{uses}.workspace = true\n\n[features]\n");
        write(root.path(), &format!("crates/{name}/Cargo.toml"), &manifest);
        write(root.path(), &format!("crates/{name}/src/lib.rs"), "// one\n");
        write(root.path(), &format!("crates/{name}/tests/all.rs"), "// one\n");
    }
    write(root.path(), "Cargo.lock", "");
    write(root.path(), "Cargo.toml", "");
    root
}

fn git(root: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args([
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
    ]);
    assert!(command.args(arguments).output().unwrap().status.success(), "{arguments:?}");
}

#[test]
fn builds_of_other_sources_are_other_versions() {
    let root = workspace();
    let root = root.path();
    let now = || version::of(root, "git");
    git(root, &["init", "-q"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "one"]);
    let clean = now();
    assert_eq!((clean.commit.len(), clean.sources.len()), (12, 16), "{clean:?}");

    // This is an uncommitted change in an indirect dependency of the lab.
    write(root, "crates/wire/src/lib.rs", "// two\n");
    let dirty = now();
    assert_ne!(dirty.sources, clean.sources);
    assert_eq!(dirty.commit, format!("{}-dirty-{}", clean.commit, dirty.sources));
    // A different change gives another version; the original content gives the first version again.
    write(root, "crates/wire/src/lib.rs", "// three\n");
    assert_ne!(now().sources, dirty.sources);
    write(root, "crates/wire/src/lib.rs", "// one\n");
    assert_eq!((now().commit, now().sources), (clean.commit.clone(), clean.sources.clone()));
    // An untracked file, and the same file under another name.
    write(root, "crates/lab/src/more.rs", "");
    assert!(now().commit.contains("-dirty-") && now().sources != clean.sources);
    std::fs::rename(root.join("crates/lab/src/more.rs"), root.join("crates/lab/src/most.rs")).unwrap();
    let renamed = now();
    // The same sources, committed: the hash is unchanged, the commit differs.
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "two"]);
    assert_eq!(now().sources, renamed.sources);
    assert!(now().commit.len() == 12 && now().commit != clean.commit);
}

/// Changes of files that no run depends on do not rebuild the program, and sweeps continue with its results.
#[test]
fn other_files_make_no_other_version() {
    let root = workspace();
    let root = root.path();
    git(root, &["init", "-q"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "one"]);
    let before = version::of(root, "git");
    for name in
        ["README.md", "crates/cli/src/lib.rs", "crates/lab/tests/all.rs", "target/x", "crates/wire/.x"]
    {
        write(root, name, "// other\n");
    }
    let after = version::of(root, "git");
    assert_eq!((after.commit, after.sources), (before.commit, before.sources));
    let watched: Vec<_> =
        after.watched.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect();
    for name in ["Cargo.lock", "crates/lab/src", "crates/transport/src", "crates/wire/Cargo.toml"] {
        assert!(watched.iter().any(|one| one == name), "{name}: {watched:?}");
    }
    assert!(!watched.iter().any(|one| one.contains("tests") || one.contains("cli")), "{watched:?}");
}

#[test]
fn without_git_the_sources_are_the_version() {
    let root = workspace();
    let root = root.path();
    let (without, outside) = (version::of(root, "no-such-program"), version::of(root, "git"));
    assert_eq!(without.commit, format!("unknown-{}", without.sources));
    assert_eq!(without.sources, outside.sources);
    write(root, "crates/transport/src/lib.rs", "// two\n");
    assert_ne!(version::of(root, "no-such-program").commit, without.commit);
}
