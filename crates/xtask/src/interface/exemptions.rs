//! Exceptions from the rules for public types, in `docs/interface/exemptions.txt`: `RULE TYPE: reason`.

use std::collections::BTreeMap;
use std::path::Path;

/// File of the exceptions.
pub(super) const FILE: &str = "docs/interface/exemptions.txt";

/// Rule for public types from which a line makes an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// Public types must be `#[non_exhaustive]`, so that other crates cannot match or build them without `..`.
    Exhaustive,
    /// `anabranch` must re-export every type that its interface reaches.
    Unnamed,
}

/// Exempt types with the rule that does not hold for them; `true` once the exception was needed.
#[derive(Debug, Default)]
pub(super) struct Exemptions(BTreeMap<(Rule, String), bool>);

impl Exemptions {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or a line is not `RULE TYPE: reason`.
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

    /// Returns true if the type is exempt from the rule, and records that the exception is needed.
    pub(super) fn allows(&mut self, rule: Rule, path: &str) -> bool {
        self.0.get_mut(&(rule, path.to_owned())).map(|used| *used = true).is_some()
    }

    /// Returns the types whose exception [`Self::allows`] has never needed.
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
