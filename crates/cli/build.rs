//! Passes the version of the lab to the program: the commit, and a hash of the sources. Results name this
//! version.

#[path = "build/version.rs"]
mod version;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let version = version::of(Path::new("../.."), "git");
    println!("cargo::rustc-env=ANABRANCH_COMMIT={}", version.commit);
    println!("cargo::rustc-env=ANABRANCH_SOURCES={}", version.sources);
    // A nonexistent file would make Cargo run this script every time.
    let watched = version.watched.iter().filter(|path| path.exists());
    watched.for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}
