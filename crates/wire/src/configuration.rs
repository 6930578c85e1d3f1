//! Form of all configurations: settings that nobody outside their crate can name in a literal, so that one
//! more of them breaks no user.

use core::fmt;

/// Declares a configuration: each setting once, with its documentation, its getter, its setter and its
/// default.
///
/// A setter takes the configuration and gives it back, so that one is written in one expression and shared at
/// once: `Arc::new(TransportConfig::default().with_grease(false))`. The kinds of settings are
///
/// - `copy`: the getter copies;
/// - `into`: the getter copies, and the setter takes whatever becomes the type: a value where the setting is
///   an `Option`;
/// - `lend`: the getter lends what stands behind `->`, and the setter takes whatever becomes the type;
/// - `option`: the setting is an `Option` of the type, of which the getter lends the inside.
///
/// `new(argument: Type)` in front of the settings gives the configuration a constructor with these arguments
/// instead of a [`Default`].
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
            /// Begins with the defaults of everything else.
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

/// A setting that contradicts the protocol or another setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    setting: &'static str,
    rule: &'static str,
}

impl InvalidSetting {
    /// Creates the error of a setting that does not keep to this rule.
    pub const fn new(setting: &'static str, rule: &'static str) -> Self {
        Self { setting, rule }
    }

    /// Checks that a setting keeps to a rule.
    ///
    /// # Errors
    /// If it does not.
    pub const fn unless(kept: bool, setting: &'static str, rule: &'static str) -> Result<(), Self> {
        if kept { Ok(()) } else { Err(Self { setting, rule }) }
    }

    /// Returns the setting's name, that of its getter.
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Returns the rule that it breaks.
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
