//! Meaning of the names of variants.

use crate::profile::{Settings, UnknownLayer, Variant};

/// Returns the variant of this name, as the published experiments use it. For the stack of 2022, a name is
/// `{single|multiple}-{cubic|bbr1|olia}`, then any of a receiver's limit (`-ar5`, `-ah128`, …) and `-noaf`,
/// then `-{original|fixed}`. The other stack of that study is `pquic`; those of 2017 are `mpquic`,
/// `mpquic-no-signal`, `quic-path-0` and `quic-path-1`.
///
/// # Errors
/// If a part of the name is no layer.
pub fn variant(name: &str) -> Result<Variant, UnknownLayer> {
    match name {
        "pquic" => Variant::of(name, &["picoquic", "original", "cubic", "pquic"]),
        "mpquic" => Variant::of(name, &["mpquic-2017"]),
        "mpquic-no-signal" => Variant::of(name, &["mpquic-2017", "no-path-signalling"]),
        "quic-path-0" => Variant::of(name, &["quic-2017", "path-0"]),
        "quic-path-1" => Variant::of(name, &["quic-2017", "path-1"]),
        _ => of_2022(name),
    }
}

/// Returns a variant of the 2022 study. The behaviour comes last in its name, but the behaviour's layer lies
/// below those that name single settings.
fn of_2022(name: &str) -> Result<Variant, UnknownLayer> {
    let (choices, behaviour) = name.rsplit_once('-').unwrap_or(("", name));
    let mut layers = vec!["picoquic", behaviour];
    layers
        .extend(choices.split('-').map(|choice| if choice == "noaf" { "no-ack-frequency" } else { choice }));
    Variant::of(name, &layers)
}

/// Creates the variant of `layers` on one path alone, for the aggregation benefit; it is always called
/// `quic-path-` and its place.
pub(super) fn single_path(layers: &[&str], path: usize) -> Result<Variant, UnknownLayer> {
    let set = Settings { multipath: Some(false), paths: Some(vec![path]), ..Settings::default() };
    Variant::with(&format!("quic-path-{path}"), layers, set)
}

/// Returns the variants of these names.
pub(super) fn variants<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Variant>, UnknownLayer> {
    names.into_iter().map(variant).collect()
}
