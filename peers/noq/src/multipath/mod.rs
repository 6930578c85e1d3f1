//! The multipath cases: an end that opens, closes and marks paths after a plan while content moves.

mod client;
mod content;
mod paths;
#[path = "../../../../crates/cli/src/interop/multipath/plan.rs"]
mod plan;
mod server;
#[path = "../../../../crates/cli/src/interop/multipath/words.rs"]
mod words;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use peer_common::args::{self, Command, Common};
use peer_common::{Failure, failed};
use quinn::{EndpointConfig, TransportConfig};

use self::plan::Plan;
use crate::setup;

/// The protocol of [`content`].
pub const ALPN: &str = "checked";

/// Flags beside those of every client and server.
#[derive(Default)]
struct Options {
    /// `--paths N`: how many paths at once; 0 turns multipath off.
    paths: u32,
    /// `--plan STEPS`
    plan: Plan,
    /// `--cid-ms MS`: connection IDs are replaced after so long.
    cid_lifetime: Option<Duration>,
    /// `--path-idle-ms MS`: a path is abandoned after so much silence.
    path_idle: Option<Duration>,
    /// `--path-keep-alive-ms MS`: a path says something at least so often.
    keep_alive: Option<Duration>,
}

/// `multipath server …` and `multipath client …`
pub async fn run(words: Vec<String>, ending: mpsc::Receiver<()>) -> Result<(), Failure> {
    let (mut options, mut rest) = (Options { paths: 4, ..Options::default() }, Vec::new());
    let mut words = VecDeque::from(words);
    while let Some(word) = words.pop_front() {
        let mut value = || words.pop_front().ok_or_else(|| Failure::Failed(format!("{word} needs a value")));
        match word.as_str() {
            "--paths" => options.paths = value()?.parse()?,
            "--plan" => options.plan = value()?.parse().or_else(failed)?,
            "--cid-ms" => options.cid_lifetime = Some(Duration::from_millis(value()?.parse()?)),
            "--path-idle-ms" => options.path_idle = Some(Duration::from_millis(value()?.parse()?)),
            "--path-keep-alive-ms" => options.keep_alive = Some(Duration::from_millis(value()?.parse()?)),
            _ => rest.push(word),
        }
    }
    match args::parse_from(rest)? {
        Command::Server(shared) => server::run(shared, options, ending).await,
        Command::Client(shared) => client::run(shared, options).await,
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }
}

/// Transport settings of both sides.
fn transport(common: &Common, options: &Options) -> Result<Arc<TransportConfig>, Failure> {
    let mut config = setup::transport(common)?;
    if let Some(paths) = NonZeroU32::new(options.paths) {
        config
            .max_concurrent_multipath_paths(paths.get())
            .default_path_max_idle_timeout(options.path_idle)
            .default_path_keep_alive_interval(options.keep_alive);
    }
    Ok(Arc::new(config))
}

/// Endpoint settings of both sides.
fn endpoint_config(options: &Options) -> EndpointConfig {
    let mut config = setup::endpoint_config(&[]);
    if let Some(lifetime) = options.cid_lifetime {
        config.cid_generator(Arc::new(move || Box::new(setup::UnmarkedIds(Some(lifetime)))));
    }
    config
}
