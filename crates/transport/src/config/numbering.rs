//! Packet number spaces that several paths use.

use crate::named::named;

named! {
    /// Numbering of the packets of several paths.
    Numbering, "numbering" {
        /// Each path has a packet number space of its own, as RFC 10069 has it. Needs connection IDs at both
        /// ends.
        Multiple = "multiple";
        /// All paths share one packet number space, an extension that both ends have to know (transport
        /// parameter 0x29e3d19e). Works without connection IDs, too.
        Single = "single";
    }
}

named! {
    /// Range of a sender's search for lost packets when its paths share one packet number space.
    LossScan, "scan for losses" {
        /// On each path by itself.
        Path = "path";
        /// In the order of the numbers, and no further than the first packet that is not lost: the losses of
        /// a fast path wait for what is under way on a slow one. Kept to repeat the 2022 study of packet
        /// number spaces. Without effect where each path has its own numbers.
        #[cfg(feature = "research")]
        Connection = "connection";
    }
}

/// Numberings that an end agrees to. A client offers all of them, and the server chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberingChoice {
    /// This one or a single path.
    Only(Numbering),
    /// Both; a server whose client offers both takes this one.
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
