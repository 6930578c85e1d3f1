//! `anabranch paths`: the interfaces of this host that --multipath uses.

use anabranch::PathRule;
use anabranch::paths::SurveyedInterface;
use clap::Args;
use serde_json::{Value, json};

use crate::exit::{self, Result};
use crate::multipath::{self, ClientPaths};
use crate::table::table;

/// Show which interfaces of this host --multipath uses, and why it leaves out others
///
/// An interface is used if it is up, has an address that is neither loopback nor link-local, and its name
/// does not belong to containers, virtual machines or a private overlay (docker*, br-*, veth*, virbr*, tap*,
/// tailscale* and the like). Point-to-point interfaces (ppp0, wg1, tun0) and mobile ones (wwan0) are used.
/// With --path only the named ones are used
#[derive(Args, Debug)]
pub(crate) struct Paths {
    /// Show the interfaces that these rules choose
    #[arg(long = "path", value_name = "IF|ADDR[,backup][,weight=N][,count=N]")]
    rules: Vec<PathRule>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: Paths) -> Result {
    let survey = ClientPaths::naming(options.rules).policy().survey().await;
    match options.json {
        true => exit::say(Value::Array(survey.interfaces.iter().map(facts).collect()))?,
        false => exit::say(table(
            &["interface", "state", "addresses", "counts"],
            &[0, 1, 2, 3],
            survey.interfaces.iter().map(row),
        ))?,
    }
    multipath::check(&survey)
}

fn facts(interface: &SurveyedInterface) -> Value {
    json!({
        "interface": interface.name,
        "up": interface.is_up,
        "addresses": interface.addresses,
        "counts": interface.unused.is_none(),
        "why_not": interface.unused.map(|why| why.to_string()),
    })
}

fn row(interface: &SurveyedInterface) -> Vec<String> {
    let addresses: Vec<_> = interface.addresses.iter().map(ToString::to_string).collect();
    let counts = interface.unused.map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
    let state = if interface.is_up { "up" } else { "down" };
    vec![interface.name.clone(), state.to_owned(), addresses.join(" "), counts]
}
