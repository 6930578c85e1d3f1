//! Parsing of settings' values from TOML. Errors state the valid values.

use core::fmt::Display;
use core::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::design::MAX_PATHS;
use crate::guest::Programs;

/// Maximum number of words of a guest's command.
const MAX_WORDS: usize = 32;

/// Serialization and deserialization of values that are written as names.
pub(super) mod named {
    use serde::{Serialize, Serializer};

    use super::*;

    pub(in super::super) fn deserialize<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let name = String::deserialize(from)?;
        name.parse().map(Some).map_err(|error| D::Error::custom(format!("`{name}`: {error}")))
    }

    pub(in super::super) fn serialize<S, T>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Display,
    {
        value.as_ref().map(ToString::to_string).serialize(to)
    }
}

/// Reads a number between two bounds, both inclusive.
pub(super) fn within<'de, D, const LOWEST: u64, const HIGHEST: u64>(from: D) -> Result<Option<u64>, D::Error>
where
    D: Deserializer<'de>,
{
    let value = i64::deserialize(from)?;
    match u64::try_from(value) {
        Ok(value) if (LOWEST..=HIGHEST).contains(&value) => Ok(Some(value)),
        _ => Err(D::Error::custom(format!("{value} is not a number from {LOWEST} to {HIGHEST}"))),
    }
}

/// Reads a non-empty list of different path indices.
pub(super) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<usize>>, D::Error> {
    let paths = Vec::<usize>::deserialize(from)?;
    let repeats = paths.iter().enumerate().any(|(at, path)| paths[..at].contains(path));
    match paths.iter().all(|path| *path < MAX_PATHS) && !paths.is_empty() && !repeats {
        true => Ok(Some(paths)),
        false => Err(D::Error::custom(format!(
            "{paths:?} is not a list of different paths from 0 to {}",
            MAX_PATHS - 1
        ))),
    }
}

/// Reads the two pacing gains, in percent of the window.
pub(super) fn gains<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u16; 2]>, D::Error> {
    let gains = <[u16; 2]>::deserialize(from)?;
    match gains.iter().all(|percent| (50..=1000).contains(percent)) {
        true => Ok(Some(gains)),
        false => Err(D::Error::custom(format!("{gains:?} are not two numbers from 50 to 1000"))),
    }
}

/// Reads the weights of paths, at least one of them above zero.
pub(super) fn weights<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    let weights = Vec::<u32>::deserialize(from)?;
    let possible = weights.len() <= MAX_PATHS && weights.iter().all(|weight| *weight <= 1000);
    match possible && weights.iter().any(|weight| *weight > 0) {
        true => Ok(Some(weights)),
        false => Err(D::Error::custom(format!(
            "{weights:?} is not a list of weights from 0 to 1000 for {MAX_PATHS} paths at most, one of them above 0"
        ))),
    }
}

/// Reads the programs of two guests, each with its arguments.
pub(super) fn programs<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Programs>, D::Error> {
    let programs = Programs::deserialize(from)?;
    let ends = [("client", &programs.client), ("server", &programs.server)];
    for (end, command) in ends {
        if command.first().is_none_or(String::is_empty) || command.len() > MAX_WORDS {
            return Err(D::Error::custom(format!(
                "`{end}` is not a program with at most {} arguments, such as [\"guest-noq\", \"--congestion\", \"cubic\"]",
                MAX_WORDS - 1
            )));
        }
    }
    Ok(Some(programs))
}
