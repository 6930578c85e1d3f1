//! `cargo xtask interop --multipath`: both ends open, close and mark paths after a plan (`peers/README.md`) while content
//! moves; a link in user space lies on every path, and shows what the path carries.

mod case;
mod play;
mod traffic;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use self::case::Case;
use super::field::Field;
use super::judge::Outcome;
use super::program::OURS;
use super::report::{self, Column};
use super::{Arguments, Known, outcome, pairs, play_all};

/// Peers that can do multipath.
const PEERS: &[&str] = &["noq"];

/// What came of the cases that were chosen.
pub(super) struct Done {
    cases: Vec<Case>,
    columns: Vec<Column>,
}

/// Whom this project's command plays with.
pub(super) fn everybody(arguments: &Arguments) -> Vec<(String, String)> {
    let mut arguments = arguments.clone();
    if arguments.peer.is_empty() {
        arguments.peer = [OURS].iter().chain(PEERS).map(|name| (*name).to_owned()).collect();
    }
    pairs(&arguments)
}

/// Plays the cases that are asked for.
pub(super) fn run(
    arguments: &Arguments,
    pairs: &[(String, String)],
    programs: &[Known],
    field: &Field,
) -> Result<Done, String> {
    let mut cases = case::all();
    if let Some(unknown) = arguments.case.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        return Err(format!("there is no multipath case {unknown}; there are {}", names.join(", ")));
    }
    cases.retain(|case| arguments.case.is_empty() || arguments.case.iter().any(|name| name == case.name));
    let columns = play_all(pairs, arguments.jobs.into(), |client, server| {
        let play = |case: &Case| {
            let outcome: Outcome =
                outcome(client, server, programs, |from, to| play::play(case, from, to, field));
            println!("{}", report::line(client, server, case.name, &outcome));
            outcome
        };
        cases.iter().map(play).collect()
    });
    Ok(Done { cases, columns })
}

impl Done {
    fn names(&self) -> Vec<&'static str> {
        self.cases.iter().map(|case| case.name).collect()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.columns.iter().any(Column::has_failed)
    }

    /// The matrix for the terminal.
    pub(super) fn matrix(&self) -> String {
        report::matrix(&self.names(), &self.columns)
    }

    /// Puts the chapter into `docs/interop.md` in place of an older one.
    pub(super) fn write(&self, root: &Path) -> Result<(), String> {
        let file = root.join("docs/interop.md");
        let failed = |error| format!("docs/interop.md: {error}");
        let document = fs::read_to_string(&file).map_err(failed)?;
        fs::write(&file, report::with_chapter(&document, TITLE, &self.chapter())).map_err(failed)
    }

    /// The chapter of `docs/interop.md`.
    pub(super) fn chapter(&self) -> String {
        let mut text = format!("{HEAD}\n{}\nHoles:\n\n", self.matrix());
        text.push_str(&report::holes(&self.names(), &self.columns));
        text.push('\n');
        for case in &self.cases {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- `{}`: {}", case.name, case.about);
        }
        text
    }
}

const TITLE: &str = "
## Multipath
";

const HEAD: &str = "
## Multipath

Written by `cargo xtask interop --multipath` (RFC 10069; both ends want four paths unless the case says otherwise). The client
reaches the server over a link of its own for each path, 127.0.0.1, 127.0.0.2 and so on, with 50 Mbit/s and 20 ms unless said
otherwise. Content says where each of its words belongs and is checked with SHA-256 at both ends; the links show which path carries
how much and when, so that a path which is said to be used, or not to be used any longer, is seen to be.

Where noq 1.4.0 differs, and what its program does about it:

- A path that is opened as a backup (`open_path` with `PathStatus::Backup`) is not announced as one (RFC 10069 §3.3): the flag that
  would have PATH_STATUS_BACKUP sent beside the PATH_CHALLENGE is cleared just before it is looked at. The program sets the status
  once the path is open.
- What the peer says of a path changes nothing by itself; the application has to set the same status (§3.3 leaves that open). The
  program does.
- A dead path is given up only after a path's idle timeout, which is off by default; what it had carried waits so long. The program
  sets one second in the cases of death, where RFC 10069 advises to copy what is in flight to other paths after a probe timeout.
- It acknowledges on any path (allowed: RFC 10069 §4), so that a path which only receives may say nothing, and its peer does not learn that
  a NAT has changed its port. The program keeps paths alive every 100 ms in the cases of rebinding.
- No HTTP/3 crate is made for it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chapter_begins_with_its_title() {
        assert!(HEAD.starts_with(TITLE));
    }
}
