//! `cargo xtask tidy`: checks of house rules that the compiler does not check.

mod arrows;
mod calls;
mod conformance;
mod determinism;
mod figures;
mod functions;
mod imports;
mod layout;
mod leftovers;
mod limits;
mod maps;
mod portable;
mod profiles;
mod prose;
mod registries;
mod rust;
mod shapes;
mod sizes;
mod threats;
mod unsafe_code;

use std::fmt;
use std::path::Path;
use std::process::Command;

/// Text file of the project.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path relative to the project's root, with `/` as the separator.
    path: String,
    text: String,
}

impl Source {
    /// Returns whether this is a Rust file of the workspace or of a peer.
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the whole file is compiled only for tests.
    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name == "tests.rs" || self.path.split('/').any(|part| part == "tests")
    }

    /// Returns the file's folder below `crates`; `None` for files elsewhere.
    fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Creates a fault on the line with this index, counted from 0.
    fn fault(&self, index: usize, what: impl Into<String>) -> Fault {
        Fault { place: format!("{}:{}", self.path, index + 1), what: what.into() }
    }
}

/// Line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    place: String,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Checks the project at `root` and prints one line for each fault. Returns whether there were none.
pub(crate) fn run(root: &Path) -> Result<bool, String> {
    let sources = sources(root)?;
    let faults: Vec<Fault> = [
        sizes::check(&sources),
        arrows::check(&sources, &arrows::metadata(root)?),
        imports::check(&sources),
        shapes::check(&sources),
        layout::check(&sources),
        leftovers::check(&sources),
        unsafe_code::check(&sources),
        determinism::check(&sources),
        maps::check(&sources),
        calls::check(&sources),
        portable::check(&sources),
        profiles::check(&sources),
        prose::check(&sources),
        registries::check(&sources),
        conformance::check(&sources),
        threats::check(&sources),
        limits::check(&sources),
        figures::check(&sources),
        bounds(root)?,
    ]
    .concat();
    for long in functions::check(&sources) {
        println!("warning: {long}");
    }
    for fault in &faults {
        println!("fault: {fault}");
    }
    let (sizes, limits) = (sizes::summary(&sources), limits::summary(&sources));
    println!("tidy: {} files, {sizes}, {limits}, {} faults", sources.len(), faults.len());
    Ok(faults.is_empty())
}

/// Reports bounds of the page of attacks that the list of `cargo xtask bounds` lacks, and entries that do not fit the code.
fn bounds(root: &Path) -> Result<Vec<Fault>, String> {
    let fault = |what| Fault { place: "crates/xtask/src/bounds".to_owned(), what };
    Ok(crate::bounds::faults(root)?.into_iter().map(fault).collect())
}

/// Prints the tests that the tables of requirements name and that did not pass in the run of `cargo test` whose
/// output is in the file `log`. Returns whether there were none.
pub(crate) fn executed(root: &Path, log: &Path) -> Result<bool, String> {
    let said = std::fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let sources = sources(root)?;
    let metadata = arrows::metadata(root)?;
    let faults = conformance::executed::check(&sources, &metadata, &String::from_utf8_lossy(&said));
    for fault in &faults {
        println!("fault: {fault}");
    }
    let count = conformance::executed::count(&sources);
    println!("executed: {count} tests of the tables, {} faults", faults.len());
    Ok(faults.is_empty())
}

/// Prints the imports between the files of a crate, or of all crates, as Mermaid flowcharts.
pub(crate) fn draw_imports(root: &Path, only: Option<&str>) -> Result<(), String> {
    print!("{}", imports::draw(&sources(root)?, only));
    Ok(())
}

/// Returns the text files that are under version control, and new ones that are not ignored.
fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    let mut paths: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    // Files that cannot be read as text are corpora or images, or were deleted.
    let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    Ok(paths.iter().filter_map(|path| Some(Source { path: (*path).to_owned(), text: text(path)? })).collect())
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
fn places(faults: &[Fault]) -> Vec<&str> {
    faults.iter().map(|fault| fault.place.as_str()).collect()
}
