//! Rows as Parquet: one row group, lists as LIST columns, Snappy compression.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::{Field, ListAccessor};
use parquet::schema::parser::parse_message_type;

use super::column::{COLUMNS, Column, Kind, Value};
use crate::record::Row;

/// Writer named in the file. It contains no version, so that equal results give equal files.
const CREATED_BY: &str = "anabranch";

pub(super) fn write(to: impl Write + Send, rows: &[Row]) -> Result<()> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(CREATED_BY.to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in COLUMNS {
        let mut next = group
            .next_column()?
            .ok_or_else(|| ParquetError::General(format!("no column {}", column.name)))?;
        Levels::of(column, rows).write(column.kind, &mut next)?;
        next.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}

pub(super) fn read(file: File) -> Result<Vec<Row>> {
    let reader = SerializedFileReader::new(file)?;
    let records = reader.get_row_iter(None)?;
    records.map(|record| Ok(row(record?.get_column_iter()))).collect()
}

fn schema() -> String {
    let mut text = String::from("message run {\n");
    for Column { name, kind, .. } in COLUMNS {
        let (list, what) = match kind {
            Kind::Text => (false, "required binary NAME (STRING)"),
            Kind::Count { optional: false } => (false, "required int64 NAME (INTEGER(64,false))"),
            Kind::Count { optional: true } => (false, "optional int64 NAME (INTEGER(64,false))"),
            Kind::Number => (false, "optional double NAME"),
            Kind::Counts => (true, "required int64 NAME (INTEGER(64,false))"),
            Kind::Numbers => (true, "required double NAME"),
        };
        // Writing to a string cannot fail.
        let _ = if list {
            let element = what.replace("NAME", "element");
            writeln!(text, "required group {name} (LIST) {{ repeated group list {{ {element}; }} }}")
        } else {
            writeln!(text, "{};", what.replace("NAME", name))
        };
    }
    text + "}"
}

/// Values of a column, with the levels that state where they belong.
#[derive(Default)]
struct Levels {
    values: Values,
    /// Definition level of each position: 1 if the position has a value.
    definition: Vec<i16>,
    /// Repetition level of each position: 1 if the position continues the current list.
    repetition: Vec<i16>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Counts(Vec<i64>),
    Numbers(Vec<f64>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

impl Levels {
    fn of(column: &Column, rows: &[Row]) -> Self {
        let mut levels = Self::default();
        let (mut texts, mut counts, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            match (column.get)(row) {
                Value::Text(text) => texts.push(ByteArray::from(text.into_bytes())),
                // Unsigned numbers are stored as signed ones with the same bits.
                Value::Count(count) => {
                    levels.optional(count.is_some());
                    counts.extend(count.map(|count| count as i64));
                }
                Value::Number(number) => {
                    levels.optional(number.is_some());
                    numbers.extend(number);
                }
                Value::Counts(list) => {
                    levels.list(list.len());
                    counts.extend(list.into_iter().map(|count| count as i64));
                }
                Value::Numbers(list) => {
                    levels.list(list.len());
                    numbers.extend(list);
                }
            }
        }
        levels.values = match column.kind {
            Kind::Text => Values::Texts(texts),
            Kind::Count { .. } | Kind::Counts => Values::Counts(counts),
            Kind::Number | Kind::Numbers => Values::Numbers(numbers),
        };
        levels
    }

    fn optional(&mut self, there: bool) {
        self.definition.push(i16::from(there));
    }

    fn list(&mut self, values: usize) {
        // An empty list has a position without a value.
        self.definition.resize(self.definition.len() + values.max(1), i16::from(values > 0));
        self.repetition.push(0);
        self.repetition.resize(self.repetition.len() + values.saturating_sub(1), 1);
    }

    fn write(&self, kind: Kind, to: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match &self.values {
            Values::Texts(values) => self.write_as::<ByteArrayType>(values, kind, to),
            Values::Counts(values) => self.write_as::<Int64Type>(values, kind, to),
            Values::Numbers(values) => self.write_as::<DoubleType>(values, kind, to),
        }
    }

    fn write_as<T: DataType>(
        &self,
        values: &[T::T],
        kind: Kind,
        to: &mut SerializedColumnWriter<'_>,
    ) -> Result<()> {
        let required = matches!(kind, Kind::Text | Kind::Count { optional: false });
        let list = matches!(kind, Kind::Counts | Kind::Numbers);
        let definition = (!required).then_some(&self.definition[..]);
        let repetition = list.then_some(&self.repetition[..]);
        to.typed::<T>().write_batch(values, definition, repetition).map(drop)
    }
}

/// Returns the row of a record. Unknown columns are ignored, and missing ones keep their defaults.
fn row<'a>(fields: impl Iterator<Item = (&'a String, &'a Field)>) -> Row {
    let mut row = Row::default();
    for (name, field) in fields {
        if let Some(column) = COLUMNS.iter().find(|column| column.name == name) {
            value(column.kind, field).map(|value| (column.set)(&mut row, value));
        }
    }
    row
}

fn value(kind: Kind, field: &Field) -> Option<Value> {
    Some(match (kind, field) {
        (Kind::Text, Field::Str(text)) => Value::Text(text.clone()),
        (Kind::Count { .. }, Field::Null) => Value::Count(None),
        (Kind::Count { .. }, Field::ULong(count)) => Value::Count(Some(*count)),
        (Kind::Number, Field::Null) => Value::Number(None),
        (Kind::Number, Field::Double(number)) => Value::Number(Some(*number)),
        (Kind::Counts, Field::ListInternal(list)) => {
            Value::Counts((0..list.len()).map(|at| list.get_ulong(at)).collect::<Result<_>>().ok()?)
        }
        (Kind::Numbers, Field::ListInternal(list)) => {
            Value::Numbers((0..list.len()).map(|at| list.get_double(at)).collect::<Result<_>>().ok()?)
        }
        _ => return None,
    })
}
