//! A TOML file, and problems at positions in it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::exit::{Exit, Failure, Result, note, one_line};

/// Maximum length of a file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Key of a file, with its value.
pub(crate) type Entry<'a> = (Spanned<DeString<'a>>, Spanned<DeValue<'a>>);

/// A file's text.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    text: String,
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Offset in the file, in bytes; `None` if the problem has no position.
    at: Option<usize>,
    what: String,
}

impl Problem {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self { at: None, what: what.to_string() }
    }

    pub(crate) fn at(span: Range<usize>, what: impl fmt::Display) -> Self {
        Self { at: Some(span.start), what: what.to_string() }
    }
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is longer than [`MAX_FILE`], or is not UTF-8.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let refused = |what: &dyn fmt::Display| Failure::new(Exit::Usage, format!("{name}: {what}"));
        let mut text = String::new();
        let file = File::open(path).map_err(|error| refused(&error))?;
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| refused(&error))?;
        if text.len() as u64 > MAX_FILE {
            return Err(refused(&format_args!("it is longer than {MAX_FILE} bytes")));
        }
        Ok(Self { path: path.to_owned(), text })
    }

    /// Parses the file.
    ///
    /// # Errors
    /// Fails if the file is not TOML, or has other keys or types than `T`.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> std::result::Result<T, Problem> {
        toml::from_str(&self.text).map_err(|error| invalid(&error))
    }

    /// Parses the file, and returns its keys in the order in which they are written.
    ///
    /// # Errors
    /// Fails if the file is not TOML.
    pub(crate) fn table(&self) -> std::result::Result<Vec<Entry<'_>>, Problem> {
        let table = DeTable::parse(&self.text).map_err(|error| invalid(&error))?;
        let mut entries: Vec<_> = table.into_inner().into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Ok(entries)
    }

    /// Returns a path that the file contains, resolved against the directory of the file.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }

    /// Returns one line with the path, the line number and the text of a problem.
    pub(crate) fn line(&self, problem: &Problem) -> String {
        let path = self.path.display();
        let line = problem.at.map(|at| {
            self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|c| **c == b'\n').count() + 1
        });
        match line {
            Some(line) => one_line(&format!("{path}:{line}: {}", problem.what)),
            None => one_line(&format!("{path}: {}", problem.what)),
        }
    }

    /// Prints all problems but the last one. Returns the last one as a failure.
    pub(crate) fn failure(&self, problems: &[Problem]) -> Failure {
        let (last, others) =
            problems.split_last().map_or((None, problems), |(last, others)| (Some(last), others));
        others.iter().for_each(|problem| note(format_args!("anabranch: {}", self.line(problem))));
        let what = last.map_or_else(|| self.path.display().to_string(), |problem| self.line(problem));
        Failure::new(Exit::Usage, what)
    }
}

fn invalid(error: &toml::de::Error) -> Problem {
    Problem { at: error.span().map(|span| span.start), what: error.message().trim().replace('\n', ", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_longer_than_max_file_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " ".repeat(MAX_FILE as usize)).unwrap();
        assert!(Document::read(file.path()).is_ok());
        std::fs::write(file.path(), " ".repeat(MAX_FILE as usize + 1)).unwrap();
        let failure = Document::read(file.path()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().ends_with("longer than 4194304 bytes"), "{failure}");
    }
}
