//! Exceptions from the rules for public types, in `docs/interface/exemptions.txt`: `RULE TYPE: reason`.

use std::collections::BTreeMap;
use std::path::Path;

/// File of the exceptions.
pub(super) const FILE: &str = "docs/interface/exemptions.txt";

/// Rule that a line makes an exception from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A type may be matched or built without `..` outside its crate.
    Exhaustive,
    /// A type that the library's interface reaches has no name in it.
    Unnamed,
}

/// Types that a rule does not hold for, and whether each was needed.
#[derive(Debug, Default)]
pub(super) struct Exemptions(BTreeMap<(Rule, String), bool>);

impl Exemptions {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is not `RULE TYPE: reason`.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &str| {
            let (rule, rest) = line.split_once(' ')?;
            let (path, reason) = rest.split_once(": ")?;
            let rule = match rule {
                "exhaustive" => Rule::Exhaustive,
                "unnamed" => Rule::Unnamed,
                _ => return None,
            };
            (!reason.trim().is_empty()).then(|| ((rule, path.to_owned()), false))
        };
        lines
            .map(|line| entry(line).ok_or_else(|| format!("{FILE}: not `RULE TYPE: reason`: {line}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns whether the rule does not hold for the type, and remembers that the line is needed.
    pub(super) fn allows(&mut self, rule: Rule, path: &str) -> bool {
        self.0.get_mut(&(rule, path.to_owned())).map(|used| *used = true).is_some()
    }

    /// Returns the types of the file's lines that [`Self::allows`] has not used.
    pub(super) fn unused(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, used)| !**used).map(|((_, path), _)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_a_rule_a_type_and_a_reason() {
        for wrong in ["exhaustive a::B", "exhaustive a::B: ", "other a::B: why"] {
            assert!(Exemptions::parse(wrong).is_err(), "{wrong}");
        }
        let mut exemptions =
            Exemptions::parse("# head\n\nexhaustive a::B: why\nunnamed a::C: why\n").unwrap();
        assert!(exemptions.allows(Rule::Exhaustive, "a::B") && !exemptions.allows(Rule::Unnamed, "a::B"));
        assert_eq!(exemptions.unused().collect::<Vec<_>>(), ["a::C"]);
    }
}
