//! Tells the program which version of the lab it has, which results name: the commit, and a hash of the
//! sources.

#[path = "build/version.rs"]
mod version;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let version = version::of(Path::new("../.."), "git");
    println!("cargo::rustc-env=ANABRANCH_COMMIT={}", version.commit);
    println!("cargo::rustc-env=ANABRANCH_SOURCES={}", version.sources);
    // A file that is not there would have this run every time.
    let watched = version.watched.iter().filter(|path| path.exists());
    watched.for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}
