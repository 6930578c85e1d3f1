//! The client: it fetches the URLs in REQUESTS.

use std::net::SocketAddr;

use super::case::TestCase;
use super::contract::Contract;
use crate::exit::{Exit, Failure, Result};
use crate::options::Tuning;
use crate::perf::client::Client;
use crate::perf::load::Case;
use crate::target::Target;
use anabranch::congestion::Algorithm;
use tokio::task::JoinSet;

/// Window of a stream, in bytes. It is small, so that a transfer depends on MAX_STREAM_DATA.
const WINDOW: u64 = 256 * 1024;
/// Number of paths that a client supports; most servers support one only.
const PATHS: u32 = 4;
/// Maximum number of concurrent connections that fetch one file each.
const CONCURRENCY: usize = 10;

pub(super) async fn run(contract: &Contract, case: TestCase) -> Result {
    let work = Work::of(contract, case).await?;
    if case == TestCase::MultiConnect {
        return one_by_one(work).await;
    }
    let paths = work.paths.clone();
    work.fetch(paths).await
}

/// A server and the files to fetch from it.
#[derive(Clone)]
struct Work {
    server: SocketAddr,
    name: String,
    case: TestCase,
    paths: Vec<String>,
    downloads: std::path::PathBuf,
}

impl Work {
    async fn of(contract: &Contract, case: TestCase) -> Result<Self> {
        let targets = contract.requests.iter().map(|url| Target::parse(url)).collect::<Result<Vec<_>>>()?;
        let none = || Failure::new(Exit::Usage, "nothing to fetch");
        let Target { host, port, .. } = targets.first().ok_or_else(none)?.clone();
        if targets.iter().any(|target| (&target.host, target.port) != (&host, port)) {
            return Err(Failure::new(Exit::Usage, "the requests are for several servers"));
        }
        let unresolved =
            |what: &dyn std::fmt::Display| Failure::new(Exit::Resolution, format!("{host}: {what}"));
        let found =
            tokio::net::lookup_host((host.as_str(), port)).await.map_err(|error| unresolved(&error))?;
        let server = found.into_iter().next().ok_or_else(|| unresolved(&"no address"))?;
        let paths = targets.into_iter().map(|target| target.path).collect();
        Ok(Self { server, name: host, case, paths, downloads: contract.downloads.clone() })
    }

    /// Fetches `paths` as the test case requires, and reports on standard output.
    async fn fetch(&self, paths: Vec<String>) -> Result {
        let tuning = Tuning {
            no_migration: false,
            idle_ms: self.case.idle_ms(),
            window: WINDOW,
            congestion: Algorithm::Cubic,
            wire: None,
            v2: self.case == TestCase::V2,
        };
        let case = match self.case {
            TestCase::Handshake | TestCase::Retry | TestCase::MultiConnect => Case::Handshake,
            TestCase::Transfer | TestCase::Http3 => Case::Transfer,
            TestCase::ChaCha20 => Case::ChaCha20,
            TestCase::KeyUpdate => Case::KeyUpdate,
            TestCase::Resumption => Case::Resumption,
            TestCase::ZeroRtt => Case::ZeroRtt,
            TestCase::V2 => Case::Upgrade,
            TestCase::Ecn => Case::Ecn,
            TestCase::ConnectionMigration => Case::Migration,
        };
        let out = self.downloads.clone();
        let client =
            Client::fetching((self.server, self.name.clone()), case, self.case.alpn(), out, paths, tuning)
                .offering(PATHS);
        crate::perf::client::run(client).await
    }
}

/// Fetches each file over its own connection.
async fn one_by_one(work: Work) -> Result {
    let mut waiting = work.paths.clone().into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < CONCURRENCY
            && let Some(path) = waiting.next()
        {
            let work = work.clone();
            running.spawn(async move { work.fetch(vec![path]).await });
        }
        match running.join_next().await {
            Some(done) => done.map_err(|error| Failure::new(Exit::Failed, error))??,
            None => return Ok(()),
        }
    }
}
