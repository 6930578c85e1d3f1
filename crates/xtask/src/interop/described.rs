//! Cases that a chapter of the report describes.

/// A case, as its chapter names it.
pub(super) trait Described {
    fn name(&self) -> &'static str;
    /// Returns the subject of the case, in a few words.
    fn about(&self) -> &'static str;
}
