//! Messages that peers send and messages that applications send.

mod received;
mod round_trip;
mod sent;

use super::{FieldGatherer, Malformed};

/// A line of a field section.
type Line<'a> = (&'a str, &'a str);

/// Gathers `lines`, none of which may be at fault by itself.
fn gather(lines: &[Line<'_>]) -> Result<FieldGatherer, Malformed> {
    let mut gatherer = FieldGatherer::new();
    for (name, value) in lines {
        gatherer.add(name.as_bytes(), value.as_bytes(), false)?;
    }
    Ok(gatherer)
}
