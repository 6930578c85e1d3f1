//! One line for each file of a folder whose files all hold the same thing.

/// Declares each file that it names as a module, and the list of the constant that all of them have.
macro_rules! registry {
    ($(#[doc = $doc:literal])* pub const $list:ident: $type:ty = $item:ident in $($module:ident),+ $(,)?) => {
        $(mod $module;)+

        $(#[doc = $doc])*
        pub const $list: $type = &[$($module::$item),+];
    };
}

pub(crate) use registry;
