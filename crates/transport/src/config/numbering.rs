//! Settings for the packet number spaces of connections with several paths.

use crate::named::named;

named! {
    /// Numbering of the packets of several paths.
    Numbering, "numbering" {
        /// Each path has its own packet number space (RFC 10069). Both ends must use non-empty connection
        /// IDs.
        Multiple = "multiple";
        /// All paths share one packet number space. Both ends must support this extension (transport
        /// parameter 0x29e3d19e). Works with zero-length connection IDs as well.
        Single = "single";
    }
}

named! {
    /// Range of a sender's search for lost packets when its paths share one packet number space.
    LossScan, "scan for losses" {
        /// Search on each path by itself.
        Path = "path";
        /// Search in packet number order up to the first packet that is not lost. Losses of a fast path are
        /// not detected while older packets of a slow path are in flight. Kept to repeat the 2022 study of
        /// packet number spaces. Has no effect if each path has its own packet number space.
        #[cfg(feature = "research")]
        Connection = "connection";
    }
}

/// Numberings that an end accepts. A client offers all of them, and the server chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberingChoice {
    /// Only this numbering; otherwise the connection uses a single path.
    Only(Numbering),
    /// Both numberings. A server chooses this one if its client offers both.
    Prefer(Numbering),
}

impl NumberingChoice {
    /// Returns whether `numbering` may be used.
    pub fn allows(self, numbering: Numbering) -> bool {
        match self {
            Self::Only(only) => only == numbering,
            Self::Prefer(_) => true,
        }
    }

    /// Returns the numbering to use if the peer leaves the choice to this end.
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
        let error = "both".parse::<Numbering>().unwrap_err().to_string();
        assert_eq!(error, "unknown numbering: use one of multiple, single");
    }
}
