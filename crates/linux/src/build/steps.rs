//! The steps of a build, one after the other.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::source::{Source, checked};
use super::{BuildError, CONFIG, PATCH, Watch};

/// File name of the kernel in the cache.
pub(super) const PROGRAM: &str = "kernel";
/// Name of the file with the kernel's version.
pub(super) const VERSION: &str = "version";
/// Name of the folder in which the kernel is built. It takes about 1.7 GB and is removed at the end.
const TREE: &str = "tree";
/// Approximate number of files that are compiled.
const COMPILED: usize = 1300;
/// Maximum length in characters of the line from a step's output that an error quotes.
const MAX_LAST: usize = 200;

/// Performs the steps that are not complete yet, in the folder `dir`.
pub(super) fn all(dir: &Path, source: &Source, watch: &dyn Watch) -> Result<(), BuildError> {
    let tree = dir.join(TREE);
    let builder = Builder { dir, tree: &tree, watch };
    builder.step("unpacking the source", "unpacked", || builder.unpack(source))?;
    let version = checked(&tree)?;
    builder.step("patching", "patched", || builder.patch())?;
    builder.step("configuring", "configured", || builder.configure())?;
    builder.step("compiling", "compiled", || builder.compile())?;
    let write = |name: &str, text: &[u8]| {
        fs::write(dir.join(name), text).map_err(|error| BuildError::file(&dir.join(name), error))
    };
    let [built, program] = [tree.join("linux"), dir.join(PROGRAM)];
    let unfinished = dir.join("kernel.unfinished");
    fs::copy(&built, &unfinished).map_err(|error| BuildError::file(&built, error))?;
    fs::rename(&unfinished, &program).map_err(|error| BuildError::file(&program, error))?;
    // The version is written last, because it marks the kernel as complete.
    write(VERSION, version.as_bytes())?;
    fs::remove_dir_all(&tree).map_err(|error| BuildError::file(&tree, error))
}

struct Builder<'a> {
    dir: &'a Path,
    tree: &'a Path,
    watch: &'a dyn Watch,
}

impl Builder<'_> {
    /// Performs a step unless its stamp file exists.
    fn step(
        &self,
        what: &'static str,
        stamp: &str,
        work: impl Fn() -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let stamp = self.tree.join(format!(".anabranch-{stamp}"));
        if stamp.exists() {
            return Ok(());
        }
        self.watch.step(what);
        work()?;
        File::create(&stamp).map(drop).map_err(|error| BuildError::file(&stamp, error))
    }

    fn unpack(&self, source: &Source) -> Result<(), BuildError> {
        // An interrupted attempt may have left a part of the tree.
        if self.tree.exists() {
            fs::remove_dir_all(self.tree).map_err(|error| BuildError::file(self.tree, error))?;
        }
        fs::create_dir_all(self.tree).map_err(|error| BuildError::file(self.tree, error))?;
        let mut command = match source {
            Source::Archive(archive) => {
                let mut tar = Command::new("tar");
                tar.arg("--extract")
                    .arg("--strip-components=1")
                    .arg("--file")
                    .arg(archive)
                    .arg("--directory")
                    .arg(self.tree);
                tar
            }
            Source::Folder(folder) => {
                let mut copy = Command::new("cp");
                copy.arg("--archive").arg("--no-target-directory").arg(folder).arg(self.tree);
                copy
            }
        };
        self.run("unpacking the source", &mut command, "")
    }

    fn patch(&self) -> Result<(), BuildError> {
        let mut patch = Command::new("patch");
        // After an interrupted attempt, some hunks are already applied.
        patch.args(["--strip=1", "--forward", "--batch", "--reject-file=-"]);
        match self.run("patching", &mut patch, PATCH) {
            Err(error) if !self.is_patched() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true if the whole patch is applied.
    fn is_patched(&self) -> bool {
        let mut back = Command::new("patch");
        back.args(["--strip=1", "--reverse", "--dry-run", "--batch", "--force"]);
        self.run("patching", &mut back, PATCH).is_ok()
    }

    fn configure(&self) -> Result<(), BuildError> {
        let wanted = self.dir.join("lab.config");
        fs::write(&wanted, CONFIG).map_err(|error| BuildError::file(&wanted, error))?;
        self.run("configuring", self.make("allnoconfig").env("KCONFIG_ALLCONFIG", &wanted), "")
    }

    fn compile(&self) -> Result<(), BuildError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        self.run("compiling", self.make("linux").arg(format!("-j{jobs}")), "")
    }

    fn make(&self, target: &str) -> Command {
        let mut make = Command::new("make");
        make.args(["ARCH=um", target]);
        // The binary must contain neither the user's name nor the date.
        make.env("KBUILD_BUILD_USER", "anabranch").env("KBUILD_BUILD_HOST", "lab");
        make.env("KBUILD_BUILD_TIMESTAMP", "2023-11-14").env_remove("MAKEFLAGS");
        make
    }

    /// Runs a command in the tree, with `input` on its standard input, and keeps its output in a file.
    fn run(&self, step: &'static str, command: &mut Command, input: &str) -> Result<(), BuildError> {
        let log = self.dir.join("build.log");
        let fault = |error| BuildError::file(&log, error);
        let mut kept = File::create(&log).map_err(fault)?;
        let failed = |last: String| BuildError::Step { step, last, log: log.clone() };
        let started = std::io::pipe().and_then(|(reader, writer)| {
            command.current_dir(self.tree).stdin(Stdio::piped());
            command.stdout(writer.try_clone()?).stderr(writer);
            Ok((reader, command.spawn()?))
        });
        // The output ends only when `command` no longer holds the writing end of the pipe.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (reader, mut child) = started.map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Errors do not matter: a program that does not read its input reports the reason.
            let _ = stdin.write_all(input.as_bytes());
        }
        let (mut last, mut compiled) = (String::new(), 0);
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(fault)?;
            kept.write_all(&line).and_then(|()| kept.write_all(b"\n")).map_err(fault)?;
            let text = String::from_utf8_lossy(&line);
            if text.starts_with("  CC ") || text.starts_with("  AS ") {
                compiled += 1;
                self.watch.compiled(compiled, COMPILED.max(compiled));
            }
            if text.contains("error") || text.contains("Error") || text.contains("FAILED") || last.is_empty()
            {
                last = text.trim().chars().filter(|c| !c.is_control()).take(MAX_LAST).collect();
            }
        }
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(failed(last)),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}
