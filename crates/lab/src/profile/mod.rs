//! Variants of an experiment: the behaviour of both ends, composed of small declarative layers.
//!
//! A layer is a TOML file in `profiles/` that sets some settings and leaves the others unchanged.
//! `docs/lab-variants.md` describes the behaviour of published studies to which each setting corresponds. To
//! add a layer, write its file and name it in `layers!`.
//!
//! ```
//! use anabranch_lab::profile::Variant;
//!
//! let variant = Variant::of("single AR5", &["picoquic", "original", "single", "cubic", "ar5"])?;
//! assert_eq!(variant.server().ack().max_ranges(), 5);
//! assert_eq!(variant.paths(3), [0, 1, 2]);
//! # Ok::<(), anabranch_lab::profile::UnknownLayer>(())
//! ```

mod apply;
mod external;
mod field;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

use anabranch_transport::TransportConfig;

pub use external::{External, ParseExternalError};
pub use settings::{Settings, SettingsError};
pub use wire::{UnknownWire, Wire};

/// Declares the layers, and embeds their files.
macro_rules! layers {
    ($($name:literal,)+) => {
        /// Names of the layers that [`layer`] returns.
        pub const LAYERS: &[&str] = &[$($name),+];

        fn text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../profiles/", $name, ".toml"))),)+
                _ => None,
            }
        }
    };
}

layers! {
    "default",
    "picoquic",
    "original",
    "fixed",
    "pquic",
    "single",
    "multiple",
    "cubic",
    "bbr1",
    "lia",
    "olia",
    "balia",
    "ar5",
    "ar8",
    "ar16",
    "ar33",
    "ar64",
    "ah128",
    "ah1024",
    "no-ack-frequency",
    "mpquic-2017",
    "quic-2017",
    "no-path-signalling",
    "path-0",
    "path-1",
}

/// Returns the settings of the layer `name`.
///
/// # Errors
/// Fails if no layer has this name.
pub fn layer(name: &str) -> Result<Settings, UnknownLayer> {
    let text = text(name)
        .ok_or_else(|| UnknownLayer(format!("unknown profile `{name}`: use one of {}", LAYERS.join(", "))))?;
    Settings::parse(&format!("profiles/{name}.toml"), text).map_err(|fault| UnknownLayer(fault.to_string()))
}

/// Error for an unknown layer. Its message lists the known layers in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownLayer(String);

/// Behaviour of both ends in the runs of one curve of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Name of the variant in the results.
    pub name: String,
    /// Settings that differ from the library's defaults.
    pub settings: Settings,
}

impl Variant {
    /// Creates a variant from layers. Each layer overrides those before it.
    ///
    /// # Errors
    /// Fails if a layer does not exist.
    pub fn of(name: &str, layers: &[&str]) -> Result<Self, UnknownLayer> {
        Self::with(name, layers, Settings::default())
    }

    /// Creates a variant from layers, with the settings `set` over all of them.
    ///
    /// # Errors
    /// Fails if a layer does not exist.
    pub fn with(name: &str, layers: &[&str], set: Settings) -> Result<Self, UnknownLayer> {
        let mut settings = Settings::default();
        for name in layers {
            settings = layer(name)?.over(settings);
        }
        Ok(Self { name: name.to_owned(), settings: set.over(settings) })
    }

    /// Returns the client's transport configuration.
    pub fn client(&self) -> TransportConfig {
        self.settings.transport()
    }

    /// Returns the server's transport configuration.
    pub fn server(&self) -> TransportConfig {
        self.settings.transport()
    }

    /// Returns the wire image of both ends' packets.
    pub fn wire(&self) -> Wire {
        self.settings.wire.unwrap_or_default()
    }

    /// Returns the stack that an engine outside the simulator runs; `None` for the simulator's own stacks.
    pub fn external(&self) -> Option<&External> {
        self.settings.external.as_ref()
    }

    /// Returns the indices of the paths in use, out of a point's `of` paths. The first one carries the
    /// handshake.
    pub fn paths(&self, of: usize) -> Vec<usize> {
        self.settings.chosen_paths(of)
    }
}
