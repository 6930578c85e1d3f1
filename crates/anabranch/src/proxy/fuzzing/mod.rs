//! Entries of fuzz targets to parts that are private. Only `fuzz/` enables the feature, and unit tests replay the
//! corpora.

mod flows;
mod ip_capsules;
mod requests;
#[cfg(test)]
mod tests;

pub use self::flows::flows;
pub use self::ip_capsules::ip_capsules;
pub use self::requests::requests;
