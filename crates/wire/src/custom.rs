//! Algorithms that programs bring along: factories with names, and the registries in which names find them.

use core::fmt;
use std::sync::{PoisonError, RwLock};

/// Maximum number of factories that a process registers in one registry.
pub const MAX_REGISTERED: usize = 64;

/// A registry of factories by their names; algorithms that a crate has itself are not in it.
#[derive(Debug)]
pub struct Registry<F: ?Sized + 'static> {
    /// Noun for the algorithms that the factories make.
    what: &'static str,
    name: fn(&F) -> &'static str,
    factories: RwLock<Vec<&'static F>>,
}

impl<F: ?Sized> Registry<F> {
    /// Creates an empty registry. `what` names the kind of algorithm in errors, `name` returns a factory's
    /// name.
    pub const fn new(what: &'static str, name: fn(&F) -> &'static str) -> Self {
        Self { what, name, factories: RwLock::new(Vec::new()) }
    }

    /// Adds a factory.
    ///
    /// # Errors
    /// If its name is among `taken` or registered, or if [`MAX_REGISTERED`] factories are there.
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

    /// Returns the factory of this name.
    pub fn find(&self, name: &str) -> Option<&'static F> {
        let factories = self.factories.read().unwrap_or_else(PoisonError::into_inner);
        factories.iter().copied().find(|known| (self.name)(known) == name)
    }
}

/// Reason that a factory was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is an algorithm of this name.
    NameTaken {
        /// Kind of algorithm.
        what: &'static str,
        /// The name.
        name: &'static str,
    },
    /// [`MAX_REGISTERED`] factories are there.
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

/// Declares the algorithm that a program brings along, as a variant `Custom` of `$algorithm` holds it: a
/// reference to a factory that is compared by its name, and the registry behind `$algorithm::register`.
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
            /// lab plans, profiles and options of commands name it that way. A configuration takes
            #[doc = concat!("[`", stringify!($algorithm), "::Custom`] without that.")]
            ///
            /// # Errors
            /// If the name is taken, or too many were registered.
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

/// Declares the choice of an algorithm, which has a name on command lines and in plans: those of
/// `$algorithm`'s own crate, and `Custom` for one that a program brings along. Another name is `$unknown`.
#[doc(hidden)]
#[macro_export]
macro_rules! algorithms {
    (
        $(#[doc = $about:literal])*
        $algorithm:ident, $what:literal, $unknown:ident, $custom:ident($factory:ident) {
            $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $variant:ident = $name:literal;)+
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $algorithm {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant,)+
            #[doc = concat!("A ", $what, " that the program brings along.")]
            Custom($custom),
        }

        impl $algorithm {
            /// The names [`FromStr`](core::str::FromStr) knows.
            pub const NAMES: &[&str] = &[$($(#[cfg($cfg)])? $name),+];

            /// Returns the algorithm's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant => $name,)+
                    Self::Custom(custom) => custom.name(),
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
