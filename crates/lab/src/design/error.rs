//! Faults of design files, with their lines.

/// Error in a design, in one line.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The file cannot be read, or is no CSV.
    #[error("{file}: {error}")]
    File {
        /// The file's name.
        file: String,
        /// Underlying error.
        error: csv::Error,
    },
    /// A column is not there.
    #[error("{file}: column `{column}` is missing")]
    MissingColumn {
        /// The file's name.
        file: String,
        /// The column's name.
        column: String,
    },
    /// A value makes no sense.
    #[error("{file}, line {line}: `{value}` in column `{column}` is not {expected}")]
    Value {
        /// The file's name.
        file: String,
        /// Its line, the header being the first.
        line: u64,
        /// The column's name.
        column: String,
        /// Value that was found.
        value: String,
        /// Value that was expected.
        expected: &'static str,
    },
    /// A column is there that means nothing.
    #[error("{file}: unknown column `{column}`: use some of {known}")]
    UnknownColumn {
        /// The file's name.
        file: String,
        /// The column's name.
        column: String,
        /// Those that there are.
        known: String,
    },
    /// A line makes no sense.
    #[error("{file}, line {line}: `{value}` is not {expected}")]
    Line {
        /// The file's name.
        file: String,
        /// The line, from 1 on.
        line: u64,
        /// Value that was found.
        value: String,
        /// Value that was expected.
        expected: &'static str,
    },
    /// There is more than anybody needs.
    #[error("{file}: more than {most} {what}")]
    TooLong {
        /// The file's name.
        file: String,
        /// Maximum number of items.
        most: u64,
        /// Of what.
        what: &'static str,
    },
    /// There is nothing in it.
    #[error("{file}: no {of}")]
    Empty {
        /// The file's name.
        file: String,
        /// Contents that are missing.
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
