//! Passes the lab's version to the program, as the build of the command does. So the results of both programs
//! have the same version.

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
