//! Cases that a chapter of the report can describe.

/// Case with a name and a description.
pub(super) trait Described {
    fn name(&self) -> &'static str;
    /// Returns the subject of the case, in a few words.
    fn about(&self) -> &'static str;
}

/// Asserts that no two cases have the same name.
#[cfg(test)]
pub(super) fn assert_unique_names(cases: &[impl Described]) {
    let names: std::collections::BTreeSet<_> = cases.iter().map(Described::name).collect();
    assert_eq!(names.len(), cases.len());
}
