//! Macro for configuration structs. Their fields are private to the crate, so that an additional setting does
//! not break users.

use core::fmt;

/// Defines a configuration. Each setting has its documentation, its getter, its setter and its default in one
/// place.
///
/// A setter consumes the configuration and returns it. A configuration can therefore be written in one
/// expression and shared at once: `Arc::new(TransportConfig::default().with_grease(false))`. The kinds of
/// settings are:
///
/// - `copy`: the getter copies the value;
/// - `into`: the getter copies the value, and the setter accepts everything that converts into the type, such
///   as a value for an `Option`;
/// - `lend`: the getter returns a reference to the type after `=>`, and the setter accepts everything that
///   converts into the setting's type;
/// - `option`: the setting is an `Option` of the type, and the getter returns an `Option` of a reference;
/// - `inner`: the setting has neither getter nor setter.
///
/// If `new(argument: Type)` precedes the settings, the configuration has a constructor with these arguments
/// instead of [`Default`].
#[doc(hidden)]
#[macro_export]
macro_rules! configuration {
    (
        $(#[$about:meta])*
        pub struct $type:ident $(: new($($argument:ident: $argument_type:ty),+))? {
            $(
                $(#[doc = $doc:literal])*
                $(#[cfg($cfg:meta)])?
                $kind:ident $field:ident, $with:ident: $field_type:ty $(=> $lent:ty)? = $default:expr;
            )+
        }
    ) => {
        $(#[$about])*
        pub struct $type {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? pub(crate) $field: $crate::configuration!(@type $kind $field_type),)+
        }

        $crate::configuration! { @begin $type, [$($($argument: $argument_type),+)?] {
            $($(#[cfg($cfg)])? $field: $default,)+
        } }

        impl $type {
            $($crate::configuration! {
                @access $kind [$(#[doc = $doc])* $(#[cfg($cfg)])?] $field, $with: $field_type $(=> $lent)?
            })+
        }
    };
    (@type option $type:ty) => { Option<$type> };
    (@type $kind:ident $type:ty) => { $type };
    (@begin $type:ident, [] { $($fields:tt)+ }) => {
        impl Default for $type {
            fn default() -> Self {
                Self { $($fields)+ }
            }
        }
    };
    (@begin $type:ident, [$($argument:ident: $argument_type:ty),+] { $($fields:tt)+ }) => {
        impl $type {
            /// Creates a configuration with the defaults of all other settings.
            pub fn new($($argument: $argument_type),+) -> Self {
                Self { $($fields)+ }
            }
        }
    };
    (@access copy [$($meta:tt)*] $field:ident, $with:ident: $type:ty) => {
        $($meta)*
        pub fn $field(&self) -> $type {
            self.$field
        }
        $crate::configuration! { @setter $field, $with: $type, $type, value => value }
    };
    (@access into [$($meta:tt)*] $field:ident, $with:ident: $type:ty) => {
        $($meta)*
        pub fn $field(&self) -> $type {
            self.$field
        }
        $crate::configuration! { @setter $field, $with: $type, impl Into<$type>, value => value.into() }
    };
    (@access lend [$($meta:tt)*] $field:ident, $with:ident: $type:ty => $lent:ty) => {
        $($meta)*
        pub fn $field(&self) -> &$lent {
            &self.$field
        }
        $crate::configuration! { @setter $field, $with: $type, impl Into<$type>, value => value.into() }
    };
    (@access lend [$($meta:tt)*] $field:ident, $with:ident: $type:ty) => {
        $crate::configuration! { @access lend [$($meta)*] $field, $with: $type => $type }
    };
    (@access option [$($meta:tt)*] $field:ident, $with:ident: $type:ty) => {
        $($meta)*
        pub fn $field(&self) -> Option<&$type> {
            self.$field.as_ref()
        }
        $crate::configuration! { @setter $field, $with: $type, impl Into<Option<$type>>, value => value.into() }
    };
    (@access inner [$($meta:tt)*] $field:ident, $with:ident: $type:ty) => {};
    (@setter $field:ident, $with:ident: $type:ty, $taken:ty, $value:ident => $stored:expr) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $with(mut self, $value: $taken) -> Self {
            self.$field = $stored;
            self
        }
    };
}

/// Setting that contradicts the protocol or another setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    setting: &'static str,
    rule: &'static str,
}

impl InvalidSetting {
    /// Creates the error of a setting that violates this rule.
    pub const fn new(setting: &'static str, rule: &'static str) -> Self {
        Self { setting, rule }
    }

    /// Checks that a setting satisfies a rule.
    ///
    /// # Errors
    /// Fails if `kept` is `false`.
    pub const fn unless(kept: bool, setting: &'static str, rule: &'static str) -> Result<(), Self> {
        if kept { Ok(()) } else { Err(Self { setting, rule }) }
    }

    /// Returns the name of the setting, which is also that of its getter.
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Returns the rule that the setting violates.
    pub const fn rule(&self) -> &'static str {
        self.rule
    }
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the setting {} {}", self.setting, self.rule)
    }
}

impl core::error::Error for InvalidSetting {}
