//! Program in the router's namespace: the lab's relay with the link of a case, and an observer.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_wire::Version;
use serde_json::{Value, json};

use super::super::run::relay;
use super::super::watch::{PacketFilter, Seen};
use super::plan::{Play, plan};

/// Relay for a case until standard input ends, then print the observations.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Forward {
    #[arg(long)]
    case: String,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    server: SocketAddr,
}

pub(crate) fn run(options: &Forward) -> Result<bool, String> {
    let known = |play: &Play| play.case.name == options.case;
    let case =
        plan().into_iter().find(known).ok_or_else(|| format!("there is no case {}", options.case))?.case;
    let link = case.link.as_ref().ok_or("the case has no link")?;
    let watch = Arc::new(Mutex::new(PacketFilter::dropping(case.drop.clone(), case.damage)));
    let relay = relay(link, options.listen, options.server, Arc::clone(&watch))?;
    println!("listening {}", relay.address());
    let mut ignored = Vec::new();
    std::io::stdin().read_to_end(&mut ignored).map_err(|error| error.to_string())?;
    drop(relay);
    let seen = watch.lock().unwrap_or_else(PoisonError::into_inner).seen();
    println!("{}", to_json(&seen));
    Ok(true)
}

fn to_json(seen: &Seen) -> Value {
    json!({
        "last_to_client_ms": seen.last_to_client.as_secs_f64() * 1e3,
        "retries": seen.retries,
        "tokens": seen.tokens,
        "negotiations": seen.negotiations,
        "zero_rtt": seen.zero_rtt,
        "versions": seen.versions.iter().map(|version| version.0).collect::<Vec<_>>(),
        "excess": seen.excess,
        "unvalidated": seen.unvalidated,
        "addresses_served": seen.addresses_served,
    })
}

/// Parses the output of [`run`]. Returns `None` for any other line.
pub(super) fn from_json(line: &str) -> Option<Seen> {
    let value: Value = serde_json::from_str(line).ok()?;
    let number = |key: &str| value[key].as_u64();
    let versions = value["versions"].as_array()?.iter();
    Some(Seen {
        last_to_client: Duration::from_secs_f64(value["last_to_client_ms"].as_f64()? / 1e3),
        retries: number("retries")?,
        tokens: number("tokens")?,
        negotiations: number("negotiations")?,
        zero_rtt: number("zero_rtt")?,
        versions: versions
            .map(|version| Some(Version(version.as_u64()?.try_into().ok()?)))
            .collect::<Option<_>>()?,
        excess: number("excess")?,
        unvalidated: number("unvalidated")?,
        addresses_served: number("addresses_served")?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_survives_the_way_between_processes() {
        let seen = Seen {
            last_to_client: Duration::from_millis(1500),
            retries: 1,
            tokens: 2,
            negotiations: 3,
            zero_rtt: 4,
            versions: [Version::V1, Version::V2].into(),
            excess: 5,
            unvalidated: 6,
            addresses_served: 7,
        };
        let read = from_json(&to_json(&seen).to_string()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{seen:?}"));
        assert!(from_json("{}").is_none() && from_json("listening").is_none());
    }
}
