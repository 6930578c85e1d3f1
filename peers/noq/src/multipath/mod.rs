//! Multipath cases: an endpoint follows a plan for opening, closing and marking paths during a transfer.

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

/// ALPN protocol of [`content`].
pub const ALPN: &str = "checked";

/// Flags in addition to those of every client and server.
#[derive(Default)]
struct Options {
    /// `--paths N`: maximum number of concurrent paths; 0 disables multipath.
    paths: u32,
    /// `--plan STEPS`
    plan: Plan,
    /// `--cid-ms MS`: lifetime of connection IDs, after which they are replaced.
    cid_lifetime: Option<Duration>,
    /// `--path-idle-ms MS`: time of silence after which a path is abandoned.
    path_idle: Option<Duration>,
    /// `--path-keep-alive-ms MS`: maximum interval between packets on a path.
    keep_alive: Option<Duration>,
}

/// Runs `multipath server …` and `multipath client …`.
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

/// Returns the transport settings of both client and server.
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

/// Returns the endpoint settings of both client and server.
fn endpoint_config(options: &Options) -> EndpointConfig {
    let mut config = setup::endpoint_config(&[]);
    if let Some(lifetime) = options.cid_lifetime {
        config.cid_generator(Arc::new(move || Box::new(setup::UnmarkedIds(Some(lifetime)))));
    }
    config
}
