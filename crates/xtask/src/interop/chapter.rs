//! Chapter of `docs/interop.md`: the cases of one subject, with the peers that support it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::described::Described;
use super::field::Field;
use super::judge::Outcome;
use super::program::{OURS, Program};
use super::report::{self, Column};
use super::{Arguments, outcome, pairs, play_all, programs};

/// Subject of a chapter.
pub(super) struct Subject<C> {
    /// Heading of the chapter.
    pub(super) name: &'static str,
    /// Text before the matrix.
    pub(super) preface: &'static str,
    /// Peers that support the subject.
    pub(super) peers: &'static [&'static str],
    pub(super) cases: fn() -> Vec<C>,
    /// Runs a case between a client and a server.
    pub(super) play: fn(&C, &Program, &Program, &Field) -> Outcome,
}

/// Results of the selected cases.
pub(super) struct Chapter {
    name: &'static str,
    preface: &'static str,
    /// Names and descriptions of the cases.
    cases: Vec<(&'static str, &'static str)>,
    columns: Vec<Column>,
}

impl<C: Described + Sync> Subject<C> {
    /// Runs the requested cases with the requested peers, or by default with all peers that support the
    /// subject.
    pub(super) fn play(&self, root: &Path, arguments: &Arguments) -> Result<Chapter, String> {
        let cases = chosen((self.cases)(), arguments)?;
        let mut arguments = arguments.clone();
        if arguments.peer.is_empty() {
            arguments.peer = [OURS].iter().chain(self.peers).map(|name| (*name).to_owned()).collect();
        }
        let pairs = pairs(&arguments);
        let programs = programs(root, &pairs, !arguments.no_build);
        let field = Field::new()?;
        let columns = play_all(&pairs, arguments.jobs.into(), |client, server| {
            let play = |case: &C| {
                let play = |from: &Program, to: &Program| (self.play)(case, from, to, &field);
                let outcome = outcome(client, server, &programs, play);
                println!("{}", report::line(client, server, case.name(), &outcome));
                outcome
            };
            cases.iter().map(play).collect()
        });
        let cases = cases.iter().map(|case| (case.name(), case.about())).collect();
        Ok(Chapter { name: self.name, preface: self.preface, cases, columns })
    }
}

/// Returns the cases that were requested by name, or all cases by default.
pub(super) fn chosen<C: Described>(mut cases: Vec<C>, arguments: &Arguments) -> Result<Vec<C>, String> {
    let wanted = &arguments.case;
    if let Some(unknown) = wanted.iter().find(|name| !cases.iter().any(|case| case.name() == **name)) {
        let names: Vec<_> = cases.iter().map(C::name).collect();
        return Err(format!("there is no case {unknown}; there are {}", names.join(", ")));
    }
    cases.retain(|case| wanted.is_empty() || wanted.iter().any(|name| name == case.name()));
    Ok(cases)
}

impl Chapter {
    pub(super) fn has_failed(&self) -> bool {
        self.columns.iter().any(Column::has_failed)
    }

    fn names(&self) -> Vec<&'static str> {
        self.cases.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the matrix for the terminal.
    pub(super) fn matrix(&self) -> String {
        report::matrix(&self.names(), &self.columns)
    }

    /// Writes the chapter into `docs/interop.md`, in place of its previous version.
    pub(super) fn write(&self, root: &Path) -> Result<(), String> {
        let file = root.join("docs/interop.md");
        let failed = |error| format!("docs/interop.md: {error}");
        let document = fs::read_to_string(&file).map_err(failed)?;
        fs::write(&file, report::with_chapter(&document, &self.title(), &self.text())).map_err(failed)
    }

    fn title(&self) -> String {
        format!("\n## {}\n", self.name)
    }

    /// Returns the chapter's text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\nHoles:\n\n", self.title(), self.preface, self.matrix());
        text.push_str(&report::holes(&self.names(), &self.columns));
        text.push('\n');
        for (name, about) in &self.cases {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- `{name}`: {about}");
        }
        text
    }
}
