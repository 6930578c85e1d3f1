//! Passes the version of the lab to the program, as the command's build does: results of both are of the same version.

#[path = "../cli/build/version.rs"]
mod version;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../cli/build");
    let version = version::of(Path::new("../.."), "git");
    println!("cargo::rustc-env=ANABRANCH_COMMIT={}", version.commit);
    println!("cargo::rustc-env=ANABRANCH_SOURCES={}", version.sources);
    // A nonexistent file would make Cargo run this script every time.
    let watched = version.watched.iter().filter(|path| path.exists());
    watched.for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}
