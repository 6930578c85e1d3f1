//! Enumerations with a name for each value, for the command line and plan files.

use std::fmt;

/// Defines an enumeration whose values have names.
macro_rules! named {
    ($(#[$about:meta])* $type:ident, $what:literal {
        $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $variant:ident = $name:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $type { $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant,)+ }

        impl $type {
            /// Names that [`FromStr`](core::str::FromStr) accepts.
            pub const NAMES: &[&str] = &[$($(#[cfg($cfg)])? $name),+];

            /// Returns the value's name.
            pub const fn name(self) -> &'static str {
                match self { $($(#[cfg($cfg)])? Self::$variant => $name,)+ }
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for $type {
            type Err = $crate::named::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $($(#[cfg($cfg)])? $name => Ok(Self::$variant),)+
                    _ => Err($crate::named::UnknownName::new($what, Self::NAMES)),
                }
            }
        }
    };
}

pub(crate) use named;

/// Error of parsing: no value has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    names: &'static [&'static str],
}

impl UnknownName {
    pub(crate) const fn new(what: &'static str, names: &'static [&'static str]) -> Self {
        Self { what, names }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}: use one of {}", self.what, self.names.join(", "))
    }
}

impl std::error::Error for UnknownName {}
