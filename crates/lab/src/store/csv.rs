//! Rows as CSV.

use std::io;

use super::column::{COLUMNS, Value};
use crate::record::Row;

/// Separator of the values of a list.
const SEPARATOR: &str = ";";

pub(super) fn write(to: impl io::Write, rows: &[Row]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(COLUMNS.iter().map(|column| column.name))?;
    for row in rows {
        writer.write_record(COLUMNS.iter().map(|column| text(&(column.get)(row))))?;
    }
    writer.flush()
}

fn text(value: &Value) -> String {
    fn list<T: ToString>(values: &[T]) -> String {
        values.iter().map(T::to_string).collect::<Vec<_>>().join(SEPARATOR)
    }
    match value {
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.map(|count| count.to_string()).unwrap_or_default(),
        Value::Number(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        Value::Counts(counts) => list(counts),
        Value::Numbers(numbers) => list(numbers),
    }
}
