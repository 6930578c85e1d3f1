//! Heap for each idle server connection, and the share of TLS in it.

use anabranch_tls::Session;
use anabranch_transport::TransportConfig;
use anabranch_workloads::counting::Account;
use anabranch_workloads::memory::{Memory, MemoryTls};
use clap::Args;
use serde_json::json;

use crate::Error;
use crate::report::Report;

/// Maximum heap of an idle connection beyond its TLS session, in bytes.
const TARGET: f64 = 12.0 * 1024.0;

#[derive(Args)]
pub(crate) struct Options {
    /// Connections that are open at the same time
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let connections = options.connections;
    let [total, with_cache] = connection_heap(connections)?;
    let in_all = if is_without_cache() { with_cache } else { heap_without_cache(connections)? };
    let tls = session_heap(connections)?;
    let beyond = total - tls;
    let row = |name: &str, bytes: f64| vec![name.to_owned(), format!("{bytes:.0}")];
    Ok(Report {
        title: format!(
            "Heap per idle server connection, {connections} open; target {TARGET:.0} bytes beyond TLS"
        ),
        columns: vec!["what", "bytes"],
        rows: vec![
            row("anabranch", total),
            row("its TLS session alone", tls),
            row("beyond TLS", beyond),
            row("in all, with C code and the allocator", in_all),
        ],
        json: json!({
            "connections": connections,
            "rows": [{ "name": "anabranch", "heap_bytes": total, "tls_bytes": tls, "beyond_tls_bytes": beyond, "malloc_bytes": in_all }],
            "target_beyond_tls_bytes": TARGET,
        }),
    })
}

/// Returns the server's heap per connection once the connection is idle after its handshake: that of Rust code, and all of it. The
/// endpoint's tables are included.
fn connection_heap(connections: u32) -> Result<[f64; 2], Error> {
    let mut memory = Memory::new(TransportConfig::default())?;
    // The first connection allocates memory that all connections share.
    memory.connect()?;
    let heap = |memory: &Memory| [memory.server_heap.bytes(), memory.server_heap.bytes_in_all()];
    let before = heap(&memory);
    let mut open = Vec::with_capacity(connections as usize);
    for _ in 0..connections {
        open.push(memory.connect()?.1);
    }
    memory.rest(&open);
    let after = heap(&memory);
    Ok([0, 1].map(|kind| (after[kind] - before[kind]) as f64 / f64::from(connections)))
}

/// Setting of glibc's `malloc` without its cache of freed blocks, which is not of either end: a block that the server frees there counts as
/// the server's although the client uses it next.
const WITHOUT_CACHE: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");

fn is_without_cache() -> bool {
    std::env::var(WITHOUT_CACHE.0).is_ok_and(|setting| setting == WITHOUT_CACHE.1)
}

/// Returns all of the server's heap per connection as another process measures it; 0, that is, unknown, in a test of this program.
fn heap_without_cache(connections: u32) -> Result<f64, Error> {
    let program = std::env::current_exe()?;
    if program.file_stem().is_none_or(|name| name != env!("CARGO_PKG_NAME")) {
        return Ok(0.0);
    }
    let args = ["idle", "--json", "-", "--connections", &connections.to_string()];
    let output =
        std::process::Command::new(program).args(args).env(WITHOUT_CACHE.0, WITHOUT_CACHE.1).output()?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    json["rows"][0]["malloc_bytes"]
        .as_f64()
        .ok_or_else(|| "`idle` in a process of its own gave no figure".into())
}

/// Returns the server's heap for each TLS session alone, after the handshake.
fn session_heap(connections: u32) -> Result<f64, Error> {
    let tls = MemoryTls::new(0)?;
    let mut kept = Vec::with_capacity(connections as usize);
    let mut heap = Account::default();
    for _ in 0..connections {
        let mut client = Session::client(&tls.client, "localhost", Vec::new())?;
        let mut server = heap.charge(|| Session::server(&tls.server, Vec::new()))?;
        while client.is_handshaking() || server.is_handshaking() {
            for flight in flights(&mut client) {
                heap.charge(|| server.read(&flight))?;
            }
            // Output buffers are not part of a session. They are allocated and freed on the same account.
            let answers = heap.charge(|| flights(&mut server));
            for flight in &answers {
                client.read(flight)?;
            }
            heap.charge(|| drop(answers));
        }
        heap.charge(|| server.retire());
        kept.push(server);
    }
    Ok(heap.bytes() as f64 / f64::from(connections) + size_of::<Session>() as f64)
}

/// Returns the handshake data that a session has to send, one piece for each encryption level.
fn flights(session: &mut Session) -> Vec<Vec<u8>> {
    let mut flights = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let more = session.write(&mut bytes).is_some();
        if !bytes.is_empty() {
            flights.push(bytes);
        }
        if !more {
            return flights;
        }
    }
}
