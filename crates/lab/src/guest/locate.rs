//! Programs of guests, and the search for their files.

use std::env;
use std::path::{Path, PathBuf};

#[cfg(feature = "experiments")]
use serde::{Deserialize, Serialize};

/// Environment variable with a folder of guests' programs.
const FOLDER: &str = "ANABRANCH_GUESTS";

/// The programs of a pair of guests, each with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "experiments", derive(Deserialize, Serialize), serde(deny_unknown_fields))]
pub struct Programs {
    /// Program of the client and its arguments.
    pub client: Vec<String>,
    /// Program of the server and its arguments.
    pub server: Vec<String>,
}

impl Programs {
    /// Creates the programs of a stack that uses `command` at both ends.
    pub fn both(command: &[&str]) -> Self {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        Self { client: command.clone(), server: command }
    }

    /// Returns the names of the programs that [`locate`] does not find.
    pub fn missing(&self) -> Vec<&str> {
        let mut missing = Vec::new();
        for program in [&self.client, &self.server].into_iter().filter_map(|command| command.first()) {
            if locate(program).is_none() && !missing.contains(&program.as_str()) {
                missing.push(program.as_str());
            }
        }
        missing
    }
}

/// Returns the file of a guest's `program`. A name with a slash is the path of the file. Other names are
/// searched for in these folders, in this order: the one that `ANABRANCH_GUESTS` names, the one below the
/// working directory in which `peers/build.sh` puts the program, that of the running program, and those of
/// `PATH`.
pub fn locate(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    let built = Path::new("peers").join(program).join("target/release");
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::var_os(FOLDER).map(PathBuf::from).into_iter().chain([built]).chain(beside);
    folders.chain(env::split_paths(&path)).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_file() {
        assert_eq!(locate("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert!(locate("sh").is_some_and(|file| file.ends_with("sh")));
        let programs = Programs::both(&["no-such-guest", "--fast"]);
        assert_eq!(programs.missing(), ["no-such-guest"]);
        assert!(Programs::both(&["/bin/sh"]).missing().is_empty());
    }
}
