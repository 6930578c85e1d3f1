//! Custom algorithms of programs: named factories, and the registries that find them by name.

use core::fmt;
use std::sync::{PoisonError, RwLock};

/// Maximum number of factories in one registry, for the whole process.
pub const MAX_REGISTERED: usize = 64;

/// Registry of factories by name. It does not contain a crate's own algorithms.
#[derive(Debug)]
pub struct Registry<F: ?Sized + 'static> {
    /// Kind of algorithm that the factories create, as a noun.
    what: &'static str,
    name: fn(&F) -> &'static str,
    factories: RwLock<Vec<&'static F>>,
}

impl<F: ?Sized> Registry<F> {
    /// Creates an empty registry. `what` is the kind of algorithm, for error messages. `name` returns a
    /// factory's name.
    pub const fn new(what: &'static str, name: fn(&F) -> &'static str) -> Self {
        Self { what, name, factories: RwLock::new(Vec::new()) }
    }

    /// Adds a factory.
    ///
    /// # Errors
    /// Fails if its name is in `taken` or already registered, or if [`MAX_REGISTERED`] factories are
    /// registered.
    pub fn add(&self, factory: &'static F, taken: &[&str]) -> Result<(), RegisterError> {
        let (what, name) = (self.what, (self.name)(factory));
        let mut factories = self.factories.write().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(&name) || factories.iter().any(|known| (self.name)(known) == name) {
            return Err(RegisterError::NameTaken { what, name });
        }
        if factories.len() >= MAX_REGISTERED {
            return Err(RegisterError::TooMany { what });
        }
        factories.push(factory);
        Ok(())
    }

    /// Returns the factory with this name.
    pub fn find(&self, name: &str) -> Option<&'static F> {
        let factories = self.factories.read().unwrap_or_else(PoisonError::into_inner);
        factories.iter().copied().find(|known| (self.name)(known) == name)
    }
}

/// Reason that a factory was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// An algorithm with this name exists already.
    NameTaken {
        /// Kind of algorithm.
        what: &'static str,
        /// Name of the factory.
        name: &'static str,
    },
    /// [`MAX_REGISTERED`] factories are registered already.
    TooMany {
        /// Kind of algorithm.
        what: &'static str,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken { what, name } => write!(f, "there is a {what} `{name}` already"),
            Self::TooMany { what } => write!(f, "more than {MAX_REGISTERED} {what}s cannot be registered"),
        }
    }
}

impl core::error::Error for RegisterError {}

/// Defines the contents of the variant `Custom` of `$algorithm`: a reference to a factory, which is compared
/// by its name. Also defines `$algorithm::register` and its registry.
#[doc(hidden)]
#[macro_export]
macro_rules! custom {
    ($custom:ident($factory:ident) in $algorithm:ident, $what:literal) => {
        #[doc = concat!("A ", $what, " that a program brings along, compared by its name.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $custom(pub &'static dyn $factory);

        static REGISTRY: $crate::Registry<dyn $factory> =
            $crate::Registry::new($what, |factory| factory.name());

        impl $custom {
            #[doc = concat!("Returns the name of the ", $what, ".")]
            pub fn name(self) -> &'static str {
                self.0.name()
            }
        }

        impl PartialEq for $custom {
            fn eq(&self, other: &Self) -> bool {
                self.name() == other.name()
            }
        }

        impl Eq for $custom {}

        impl core::hash::Hash for $custom {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.name().hash(state);
            }
        }

        impl $algorithm {
            #[doc = concat!("Registers a ", $what, " under its name, so that [`FromStr`](core::str::FromStr) finds it:")]
            /// lab plans, profiles and command-line options use the name. Registration is optional: a
            /// configuration accepts
            #[doc = concat!("[`", stringify!($algorithm), "::Custom`] without that.")]
            ///
            /// # Errors
            /// Fails if the name is taken, or if too many are registered.
            pub fn register(factory: &'static dyn $factory) -> Result<Self, $crate::RegisterError> {
                REGISTRY.add(factory, Self::NAMES)?;
                Ok(Self::Custom($custom(factory)))
            }

            fn registered(name: &str) -> Option<Self> {
                REGISTRY.find(name).map(|factory| Self::Custom($custom(factory)))
            }
        }
    };
}

/// Defines the choice of an algorithm, with names for command lines and plans: the algorithms of
/// `$algorithm`'s own crate, and `Custom` for an algorithm that the program supplies. Parsing any other name
/// returns `$unknown`.
#[doc(hidden)]
#[macro_export]
macro_rules! algorithms {
    // An entry has a `cfg` condition if and only if its algorithm is only for research.
    (@research) => { false };
    (@research $cfg:meta) => { true };
    (
        $(#[doc = $about:literal])*
        $algorithm:ident, $what:literal, $unknown:ident, $custom:ident($factory:ident) {
            $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $variant:ident = $name:literal;)+
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $algorithm {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant,)+
            #[doc = concat!("A ", $what, " that the program brings along.")]
            Custom($custom),
        }

        impl $algorithm {
            /// Names of the crate's own algorithms, which [`FromStr`](core::str::FromStr) parses.
            pub const NAMES: &[&str] = &[$($(#[cfg($cfg)])? $name),+];

            /// Returns the algorithm's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant => $name,)+
                    Self::Custom(custom) => custom.name(),
                }
            }

            /// Returns whether the algorithm only repeats a published study (feature `research`) and is not meant
            /// for use.
            pub fn is_for_research(self) -> bool {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant => $crate::algorithms!(@research $($cfg)?),)+
                    Self::Custom(_) => false,
                }
            }
        }

        impl core::fmt::Display for $algorithm {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for $algorithm {
            type Err = $unknown;

            fn from_str(name: &str) -> Result<Self, $unknown> {
                match name {
                    $($(#[cfg($cfg)])? $name => Ok(Self::$variant),)+
                    _ => Self::registered(name).ok_or($unknown),
                }
            }
        }

        $crate::custom!($custom($factory) in $algorithm, $what);
    };
}
