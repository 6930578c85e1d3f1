//! Checks of a plan's values against their bounds, and errors with line numbers.

use core::ops::Range;
use std::path::Path;

use toml::Spanned;

use super::PlanError;

/// Maximum length of a name in characters.
const MAX_NAME: usize = 100;

/// Text of a plan, with its file and folder.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) folder: &'a Path,
}

impl Source<'_> {
    /// Returns the error for the text at `span`.
    pub(super) fn fault(&self, span: Range<usize>, message: impl Into<String>) -> PlanError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = Some(1 + before.matches('\n').count());
        PlanError { file: self.file.to_owned(), line, message: message.into() }
    }

    /// Returns the error for a TOML parse error.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> PlanError {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        self.fault(error.span().unwrap_or_default(), message)
    }

    /// Returns a number. Fails if it is out of bounds.
    pub(super) fn number(
        &self,
        value: &Spanned<f64>,
        what: &str,
        lowest: f64,
        highest: f64,
    ) -> Result<f64, PlanError> {
        let number = *value.get_ref();
        if (lowest..=highest).contains(&number) {
            return Ok(number);
        }
        Err(self
            .fault(value.span(), format!("{number} in `{what}` is not a number from {lowest} to {highest}")))
    }

    /// Returns a whole number. Fails if it is out of bounds.
    pub(super) fn whole(
        &self,
        value: &Spanned<f64>,
        what: &str,
        lowest: u64,
        highest: u64,
    ) -> Result<u64, PlanError> {
        let number = *value.get_ref();
        if number.fract() == 0.0 && (lowest as f64..=highest as f64).contains(&number) {
            return Ok(number as u64);
        }
        let message = format!("{number} in `{what}` is not a whole number from {lowest} to {highest}");
        Err(self.fault(value.span(), message))
    }

    /// Returns a name. Fails if it cannot be part of a file name.
    pub(super) fn name(&self, value: &Spanned<String>) -> Result<String, PlanError> {
        let name = value.get_ref();
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('.') {
            return Ok(name.clone());
        }
        let allowed = format!("1 to {MAX_NAME} of a–z, A–Z, 0–9, `-`, `_`, `.` and `+`, not a `.` at first");
        Err(self.fault(value.span(), format!("`{}` is no name: use {allowed}", name.escape_debug())))
    }

    /// Returns the only one of `choices` that is present. Fails if none or several are.
    pub(super) fn one_of<T>(
        &self,
        span: Range<usize>,
        what: &str,
        choices: impl IntoIterator<Item = (&'static str, Option<T>)>,
    ) -> Result<T, PlanError> {
        let mut names = Vec::new();
        let mut found = Vec::new();
        for (name, choice) in choices {
            names.push(format!("`{name}`"));
            found.extend(choice);
        }
        match (found.pop(), found.is_empty()) {
            (Some(choice), true) => Ok(choice),
            _ => Err(self.fault(span, format!("{what} needs exactly one of {}", names.join(", ")))),
        }
    }
}
