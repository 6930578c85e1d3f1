//! Registry of a folder whose files all define the same constant: one line for each file.

/// Declares each named file as a module, and a list of the constant that all of them define.
macro_rules! registry {
    ($(#[doc = $doc:literal])* pub const $list:ident: $type:ty = $item:ident in $($module:ident),+ $(,)?) => {
        $(mod $module;)+

        $(#[doc = $doc])*
        pub const $list: $type = &[$($module::$item),+];
    };
}

pub(crate) use registry;
