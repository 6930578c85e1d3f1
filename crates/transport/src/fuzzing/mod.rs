//! Entries of fuzz targets to parts that are private. Only `fuzz/` enables the feature, and unit tests replay the
//! corpora.

mod connection_ids;
mod ranges;
#[cfg(test)]
mod tests;

pub use self::connection_ids::connection_ids;
pub use self::ranges::ranges;
