//! Faults of design files, with their line numbers.

/// Error in a design, formatted in one line.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The file cannot be read, or is not a CSV file.
    #[error("{file}: {error}")]
    File {
        /// Name of the file.
        file: String,
        /// Underlying error.
        error: csv::Error,
    },
    /// A required column is missing.
    #[error("{file}: column `{column}` is missing")]
    MissingColumn {
        /// Name of the file.
        file: String,
        /// Name of the column.
        column: String,
    },
    /// A cell has an invalid value.
    #[error("{file}, line {line}: `{value}` in column `{column}` is not {expected}")]
    Value {
        /// Name of the file.
        file: String,
        /// Line number; the header is line 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// Actual value.
        value: String,
        /// Description of the valid values.
        expected: &'static str,
    },
    /// A column is unknown.
    #[error("{file}: unknown column `{column}`: use some of {known}")]
    UnknownColumn {
        /// Name of the file.
        file: String,
        /// Name of the column.
        column: String,
        /// Names of the known columns.
        known: String,
    },
    /// A line is invalid.
    #[error("{file}, line {line}: `{value}` is not {expected}")]
    Line {
        /// Name of the file.
        file: String,
        /// Line number, from 1 on.
        line: u64,
        /// Actual value.
        value: String,
        /// Description of the valid values.
        expected: &'static str,
    },
    /// The file exceeds a maximum.
    #[error("{file}: more than {most} {what}")]
    TooLong {
        /// Name of the file.
        file: String,
        /// Maximum number of items.
        most: u64,
        /// Kind of the items.
        what: &'static str,
    },
    /// The file has no contents of the required kind.
    #[error("{file}: no {of}")]
    Empty {
        /// Name of the file.
        file: String,
        /// Kind of the missing contents.
        of: &'static str,
    },
}

/// Returns the error for an invalid value.
pub(super) fn wrong(
    file: &str,
    record: &csv::StringRecord,
    column: &str,
    index: usize,
    expected: &'static str,
) -> DesignError {
    DesignError::Value {
        file: file.to_owned(),
        line: record.position().map_or(0, csv::Position::line),
        column: column.to_owned(),
        value: record[index].to_owned(),
        expected,
    }
}
