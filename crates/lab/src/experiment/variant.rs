//! Parsing of variants' names into settings.

use crate::profile::{External, Settings, UnknownLayer, Variant};

/// Suffixes of Linux's variants that select a setup.
const LINUX_SETUPS: [&str; 8] = [
    "tls12-default-buffers",
    "tls13-default-buffers",
    "default-buffers",
    "tls12-buffers-256k",
    "tls13-buffers-256k",
    "buffers-256k",
    "tls12",
    "tls13",
];

/// Returns the variant of this name, as the published experiments use it. For the stack of 2022, a name is
/// `{single|multiple}-{cubic|bbr1|lia|olia|balia}`, then any of a receiver's limit (`-ar5`, `-ah128`, …) and
/// `-noaf`, then `-{original|fixed}`. The other stack of that study is `pquic`; those of 2017 are `mpquic`,
/// `mpquic-no-signal`, `quic-path-0` and `quic-path-1`. Those of Linux are
/// `linux-{tcp-cubic|tcp-reno|tcp-bbr}-path-{0|1|2}`, `linux-mptcp`, `linux-mptcp-reno` and
/// `linux-mptcp-bbr`, each optionally with `-tls13` or `-tls12`, and `-default-buffers` or `-buffers-256k`.
///
/// # Errors
/// Fails if a part of the name is not a layer.
pub fn variant(name: &str) -> Result<Variant, UnknownLayer> {
    match name {
        "pquic" => Variant::of(name, &["picoquic", "original", "cubic", "pquic"]),
        "mpquic" => Variant::of(name, &["mpquic-2017"]),
        "mpquic-no-signal" => Variant::of(name, &["mpquic-2017", "no-path-signalling"]),
        "quic-path-0" => Variant::of(name, &["quic-2017", "path-0"]),
        "quic-path-1" => Variant::of(name, &["quic-2017", "path-1"]),
        _ => match name.strip_prefix("linux-") {
            Some(stack) => Ok(of_linux(name, stack)),
            None => of_2022(name),
        },
    }
}

/// Returns a variant that Linux runs. Linux's engine checks whether the stack exists.
fn of_linux(name: &str, stack: &str) -> Variant {
    let is_setup = |setup: &&&str| stack.strip_suffix(**setup).is_some_and(|rest| rest.ends_with('-'));
    let setup = LINUX_SETUPS.iter().find(is_setup).copied().unwrap_or_default();
    let rest = stack.strip_suffix(setup).unwrap_or(stack);
    let rest = if setup.is_empty() { rest } else { rest.trim_end_matches('-') };
    let alone =
        rest.rsplit_once("-path-").and_then(|(stack, path)| Some((stack, path.parse::<usize>().ok()?)));
    let (stack, paths) = match alone {
        Some((stack, path)) => (stack, Some(vec![path])),
        None => (rest, None),
    };
    let external = External { engine: "linux".to_owned(), stack: stack.to_owned(), setup: setup.to_owned() };
    let settings =
        Settings { external: Some(external), multipath: Some(paths.is_none()), paths, ..Settings::default() };
    Variant { name: name.to_owned(), settings }
}

/// Returns a variant of the 2022 study. The behaviour (`original` or `fixed`) is the last part of its name.
/// Its layer is applied before the layers of single settings, so that these override it.
fn of_2022(name: &str) -> Result<Variant, UnknownLayer> {
    let (choices, behaviour) = name.rsplit_once('-').unwrap_or(("", name));
    let mut layers = vec!["picoquic", behaviour];
    layers
        .extend(choices.split('-').map(|choice| if choice == "noaf" { "no-ack-frequency" } else { choice }));
    Variant::of(name, &layers)
}

/// Creates the variant of `layers` on the path with index `path` alone, for the aggregation benefit. Its name
/// is always `quic-path-` and the index.
pub(super) fn single_path(layers: &[&str], path: usize) -> Result<Variant, UnknownLayer> {
    let set = Settings { multipath: Some(false), paths: Some(vec![path]), ..Settings::default() };
    Variant::with(&format!("quic-path-{path}"), layers, set)
}

/// Returns the variants of these names.
pub(super) fn variants<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Variant>, UnknownLayer> {
    names.into_iter().map(variant).collect()
}
