//! Public types that cannot grow: enums, and structs with public fields, that are not `#[non_exhaustive]`.
//!
//! An additional variant or field breaks programs that match or build such a type. Tuple structs are not
//! reported, because each only gives a name to one value.

use std::collections::BTreeSet;

use super::exemptions::{Exemptions, Rule};

/// Returns the types of a listing that cannot grow and are not exempt.
pub(super) fn rigid(listing: &str, exemptions: &mut Exemptions) -> Vec<String> {
    let with_fields: BTreeSet<&str> = listing.lines().filter_map(owner_of_field).collect();
    let types = listing.lines().filter_map(exhaustive);
    types
        .filter(|(is_enum, path)| *is_enum || with_fields.contains(path))
        .filter(|(_, path)| !exemptions.allows(Rule::Exhaustive, path))
        .map(|(_, path)| path.to_owned())
        .collect()
}

/// Parses a line that declares a type without `#[non_exhaustive]`. Returns `true` for an enum and `false` for a
/// struct, and the path of the type.
fn exhaustive(item: &str) -> Option<(bool, &str)> {
    let (attributes, declared) = item.split_at(item.find("pub ")?);
    if attributes.contains("non_exhaustive") || !(attributes.is_empty() || attributes.starts_with("#[")) {
        return None;
    }
    let declared = declared.strip_prefix("pub ")?;
    let (is_enum, path) = match declared.strip_prefix("enum ") {
        Some(path) => (true, path),
        None => (false, declared.strip_prefix("struct ")?),
    };
    path.split(|end: char| !(end.is_alphanumeric() || "_:".contains(end))).next().map(|path| (is_enum, path))
}

/// Returns the path of a struct if the line declares one of its fields (`pub path::Type::field: type`).
fn owner_of_field(item: &str) -> Option<&str> {
    let (field, _) = item.strip_prefix("pub ")?.split_once(": ")?;
    let (owner, name) = field.rsplit_once("::")?;
    let is_field =
        !owner.contains(' ') && name.starts_with(|first: char| first.is_lowercase() || first == '_');
    is_field.then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "#[non_exhaustive] pub enum a::Grows\n\
        #[repr(u8)] pub enum a::Fixed\n\
        impl a::Fixed\n\
        pub a::Open::field: u64\n\
        pub fn a::Open::new(field: u64) -> Self\n\
        pub struct a::Open<'a>\n\
        pub struct a::Closed\n\
        pub struct a::Number(pub u64)\n";

    #[test]
    fn types_that_cannot_grow_are_found_unless_exempt() {
        assert_eq!(rigid(LISTING, &mut Exemptions::default()), ["a::Fixed", "a::Open"]);
        let mut exemptions = Exemptions::parse("exhaustive a::Fixed: two there are\n").unwrap();
        assert_eq!(rigid(LISTING, &mut exemptions), ["a::Open"]);
        assert_eq!(exemptions.unused().count(), 0);
    }
}
