//! Cases that a chapter of the report can describe.

/// Case with a name and a description.
pub(super) trait Described {
    fn name(&self) -> &'static str;
    /// Returns the subject of the case, in a few words.
    fn about(&self) -> &'static str;
}
