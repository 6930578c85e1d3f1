//! Copy of the workspace in which each bound can be taken out at run time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::list::List;
use super::scratch;

/// Environment variable with the bound to take out.
pub(super) const VARIABLE: &str = "ANABRANCH_TAKEN_OUT";

/// Function that is added to each crate with a bound.
const FUNCTION: &str = r#"
/// Returns whether this bound is taken out.
pub(crate) fn taken_out(name: &str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("ANABRANCH_TAKEN_OUT").ok()).as_deref() == Some(name)
}
"#;

/// Copy of the workspace.
#[derive(Debug)]
pub(super) struct Copy {
    /// Root of the copy.
    pub(super) root: PathBuf,
    /// Target folder of the copy.
    pub(super) target: PathBuf,
}

/// Writes the copy. Files that do not change keep their time, so that cargo builds again only what differs.
pub(super) fn write(root: &Path, list: &List) -> Result<Copy, String> {
    let scratch = scratch(root);
    let copy = Copy { root: scratch.join("workspace"), target: scratch.join("target") };
    let mut patches = list.patches(root)?;
    let folders: Vec<String> =
        patches.keys().filter_map(|file| file.split('/').next()).map(str::to_owned).collect();
    for folder in folders {
        for name in ["src/lib.rs", "src/main.rs"] {
            let file = format!("{folder}/{name}");
            let Ok(text) = fs::read_to_string(root.join("crates").join(&file)) else { continue };
            if !patches.get(&file).is_some_and(|text| text.contains("fn taken_out(")) {
                let text = patches.remove(&file).unwrap_or(text) + FUNCTION;
                patches.insert(file, text);
            }
        }
    }
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?.stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut written = BTreeSet::new();
    for file in listed.split('\0').filter(|file| !file.is_empty()) {
        let patch = file.strip_prefix("crates/").and_then(|file| patches.get(file));
        let content = match patch {
            Some(text) => text.clone().into_bytes(),
            // A file that was deleted, but not yet in the index, is left out.
            None => match fs::read(root.join(file)) {
                Ok(content) => content,
                Err(_) => continue,
            },
        };
        put(&copy.root.join(file), &content).map_err(|error| format!("{file}: {error}"))?;
        written.insert(copy.root.join(file));
    }
    prune(&copy.root.join("crates"), &written).map_err(|error| format!("an old copy: {error}"))?;
    Ok(copy)
}

/// Removes files of an earlier copy that this one lacks: the compiler would find modules twice that have moved.
fn prune(folder: &Path, written: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            prune(&path, written)?;
        } else if !written.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Writes a file unless it has this content.
fn put(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}
