//! Which packet number spaces several paths use.

use std::fmt;
use std::str::FromStr;

/// How the packets of several paths are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numbering {
    /// Each path has a packet number space of its own, as RFC 10069 has it. Needs connection IDs at both ends.
    Multiple,
    /// All paths share one packet number space, an extension that both ends have to know (transport parameter 0x29e3d19e).
    /// Works without connection IDs, too.
    Single,
}

impl Numbering {
    /// The names that [`FromStr`] knows.
    pub const NAMES: &[&str] = &["multiple", "single"];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Multiple => "multiple",
            Self::Single => "single",
        }
    }
}

impl fmt::Display for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Numbering {
    type Err = UnknownNumbering;

    fn from_str(name: &str) -> Result<Self, UnknownNumbering> {
        match name {
            "multiple" => Ok(Self::Multiple),
            "single" => Ok(Self::Single),
            _ => Err(UnknownNumbering),
        }
    }
}

/// No numbering has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownNumbering;

impl fmt::Display for UnknownNumbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown numbering: use one of {}", Numbering::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownNumbering {}

/// Which numberings an end agrees to. A client offers them all, and the server chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberingChoice {
    /// This one or a single path.
    Only(Numbering),
    /// Both; a server whose client offers both takes this one.
    Prefer(Numbering),
}

impl NumberingChoice {
    /// Whether `numbering` may be used.
    pub fn allows(self, numbering: Numbering) -> bool {
        match self {
            Self::Only(only) => only == numbering,
            Self::Prefer(_) => true,
        }
    }

    /// The one to use if the peer leaves the choice.
    pub fn preferred(self) -> Numbering {
        match self {
            Self::Only(numbering) | Self::Prefer(numbering) => numbering,
        }
    }
}

impl Default for NumberingChoice {
    fn default() -> Self {
        Self::Prefer(Numbering::Multiple)
    }
}

impl From<Numbering> for NumberingChoice {
    fn from(numbering: Numbering) -> Self {
        Self::Only(numbering)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for name in Numbering::NAMES {
            assert_eq!(name.parse::<Numbering>().unwrap().to_string(), *name);
        }
        assert_eq!("both".parse::<Numbering>(), Err(UnknownNumbering));
    }
}
