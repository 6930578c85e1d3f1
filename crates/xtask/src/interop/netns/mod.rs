//! `cargo xtask interop --netns`: runs the entry point of the public interop runner's endpoint in network
//! namespaces, as the runner does.
//!
//! Client and server are in separate namespaces, with a router between them. A relay in user space simulates
//! the link of a case. It runs in the router's namespace, at addresses to which the server's names resolve,
//! so netem is not needed. ECN marks and server addresses would not survive the relay, so cases about those
//! bypass it.

mod evidence;
pub(crate) mod forward;
pub(crate) mod load;
pub(super) mod network;
mod plan;
mod play;

use std::path::Path;

use self::plan::Play;
use self::play::Setting;
use super::Arguments;
use super::field::Field;
use super::judge::Outcome;
use super::program::{OURS, Program};
use super::report::{self, Column, Done};

/// Runs the selected cases and prints each outcome. Fails if a case is unknown, or if there is no command to
/// run the cases with.
pub(super) fn run(root: &Path, arguments: &Arguments) -> Result<Done, String> {
    let plays = chosen(&arguments.case)?;
    let cases = plays.iter().map(|play| play.case.clone()).collect();
    let column = |outcomes| Column { client: OURS.to_owned(), server: OURS.to_owned(), outcomes };
    if let Some(obstacle) = network::obstacle() {
        let skipped: Vec<_> = plays.iter().map(|_| Outcome::Skipped(obstacle.to_owned())).collect();
        plays.iter().zip(&skipped).for_each(|(play, outcome)| tell(play, outcome));
        return Ok(Done { cases, column: column(skipped) });
    }
    network::sweep_orphans();
    ctrlc::set_handler(|| {
        network::sweep_own();
        std::process::exit(130);
    })
    .map_err(|error| error.to_string())?;
    let program = Program::ready(root, OURS, !arguments.no_build)?;
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let field = Field::new()?;
    let command = program.path().canonicalize().map_err(|error| format!("{OURS}: {error}"))?;
    let setting = Setting { endpoint: root.join("interop/run_endpoint.sh"), command, field: &field };
    let mut outcomes = Vec::new();
    for (number, play) in plays.iter().enumerate() {
        let outcome = play::play(&setting, play, number);
        tell(play, &outcome);
        outcomes.push(outcome);
    }
    Ok(Done { cases, column: column(outcomes) })
}

fn tell(play: &Play, outcome: &Outcome) {
    println!("netns {}", report::line(OURS, OURS, play.case.name, outcome));
}

fn chosen(names: &[String]) -> Result<Vec<Play>, String> {
    let mut plays = plan::plan();
    if let Some(unknown) = names.iter().find(|name| !plays.iter().any(|play| play.case.name == **name)) {
        let known: Vec<_> = plays.iter().map(|play| play.case.name).collect();
        return Err(format!("there is no case {unknown} in namespaces; there are {}", known.join(", ")));
    }
    plays.retain(|play| names.is_empty() || names.iter().any(|name| name == play.case.name));
    Ok(plays)
}
