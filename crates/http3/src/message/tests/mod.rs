//! Tests of received and of sent messages.

mod received;
mod round_trip;
mod sent;

use super::{FieldGatherer, Malformed};

/// Line of a field section: name and value.
type Line<'a> = (&'a str, &'a str);

/// Adds `lines` to a new gatherer. Fails if one of them is invalid.
fn gather(lines: &[Line<'_>]) -> Result<FieldGatherer, Malformed> {
    let mut gatherer = FieldGatherer::new();
    for (name, value) in lines {
        gatherer.add(name.as_bytes(), value.as_bytes(), false)?;
    }
    Ok(gatherer)
}
