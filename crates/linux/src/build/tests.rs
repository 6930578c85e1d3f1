use super::*;

#[test]
fn a_source_of_another_version_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| fs::write(dir.path().join("Makefile"), text).unwrap();
    write("# SPDX\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 130\nEXTRAVERSION =\n");
    let fault = Source::at(dir.path()).unwrap_err().to_string();
    assert!(fault.ends_with("is Linux 6.1.130, but the patch and all results are for 6.12"), "{fault}");
    write("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n");
    assert_eq!(Source::at(dir.path()), Ok(Source::Folder(dir.path().to_owned())));
    assert_eq!(source::checked(dir.path()).unwrap(), "6.12.117");
    write("VERSION = $(shell date)\nPATCHLEVEL = 12\nSUBLEVEL = 1\n");
    assert!(matches!(Source::at(dir.path()), Err(SourceError::Other(_))));
    assert!(Source::at(&dir.path().join("none")).unwrap_err().to_string().contains("no source of a kernel"));
}

#[test]
fn missing_tools_are_named_with_their_packages() {
    let fault = tools::missing(|program| !["flex", "xz"].contains(&program)).unwrap_err();
    assert_eq!(fault.to_string(), "missing: flex, xz; on Debian: apt-get install flex xz-utils");
    assert!(tools::missing(|_| true).is_ok());
}

#[test]
fn a_kernel_is_there_when_its_version_is() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    assert_eq!(cache.kernel(), None);
    fs::create_dir_all(cache.dir()).unwrap();
    fs::write(cache.dir().join("kernel"), "").unwrap();
    assert_eq!(cache.kernel(), None, "it may have been interrupted");
    fs::write(cache.dir().join("version"), "6.12.117\n").unwrap();
    let kernel = cache.kernel().unwrap();
    assert!(kernel.version.starts_with("6.12.117-") && kernel.version.len() == 17);
    fs::write(cache.dir().join("version"), "6.13.1").unwrap();
    assert_eq!(cache.kernel(), None);
}

struct Quiet;

impl Watch for Quiet {
    fn step(&self, _: &str) {}
    fn compiled(&self, _: usize, _: usize) {}
}

#[test]
fn a_tree_that_is_no_kernel_stops_the_build() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("linux.tar.xz");
    fs::write(&archive, "no archive").unwrap();
    let cache = Cache::at(&dir.path().join("cache"));
    fs::create_dir_all(cache.dir()).unwrap();
    let fault = steps::all(cache.dir(), &Source::Archive(archive), &Quiet).unwrap_err().to_string();
    assert!(fault.starts_with("unpacking the source failed: ") && fault.lines().count() == 1, "{fault}");
}
