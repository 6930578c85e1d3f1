//! Benchmarks of anabranch and other QUIC stacks. `cargo run --release -p anabranch-bench -- --help`.
//!
//! Other stacks are the programs below `peers/`, built with `peers/build.sh`. Programs that are not built are
//! listed and skipped.

mod acks;
mod aggregation;
mod all;
mod bulk;
mod child;
mod claims;
mod compare;
mod failover;
mod fetch;
mod first_byte;
mod fleet;
mod handshakes;
mod held;
mod idle;
mod load;
mod lossy;
mod receive;
mod report;
mod requests;
mod restarts;
mod send;
mod simulate;
mod soak;
mod stacks;
mod tunnel;
mod workers;

use anabranch_workloads::counting::Counting;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Error message for the user of the benchmark.
type Error = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(
    name = "anabranch-bench",
    about = "Measures anabranch, beside other QUIC stacks where they are built"
)]
struct Cli {
    #[command(subcommand)]
    benchmark: Benchmark,
    /// Write the result as one JSON object to this file, `-` for standard output
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<String>,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Run all of the following benchmarks, and make their table for docs/performance.md
    All(all::Options),
    /// Nanoseconds per packet in the receive path, without sockets
    Receive(receive::Options),
    /// Nanoseconds per packet in the send path, without sockets
    Send(send::Options),
    /// Our own part of the HTTP/3 measurement of `receive`
    #[command(hide = true)]
    Pages(receive::pages::Options),
    /// Heap per idle server connection
    Idle(idle::Options),
    /// Full handshakes per second of server CPU, over loopback
    Handshakes(handshakes::Options),
    /// Milliseconds of `get` of a small file over loopback: those of the network, and those that the program
    /// adds
    Fetch(fetch::Options),
    /// CPU seconds per GB of one download on one stream, over loopback
    Bulk(bulk::Options),
    /// Measure the claims that `anabranch lab claims reverso` evaluates: VReverso compared with version 1 and
    /// with its reference
    Claims(claims::Options),
    /// Small HTTP/3 requests per second of server CPU, over loopback
    Requests(requests::Options),
    /// Downloads over several paths at all points of a design, in virtual time, compared with each point's
    /// fluid bound
    Aggregation(aggregation::Options),
    /// Downloads over several paths with our stack and with others, in virtual time, compared with each point's
    /// fluid bound
    Compare(compare::Options),
    /// This library as a guest of `compare`
    #[command(hide = true)]
    Guest(compare::guest::Options),
    /// Length of the gap when one of several paths fails, over random kill schedules in virtual time
    Failover(failover::Options),
    /// CPU seconds of a download over two paths in virtual time
    Simulate(simulate::Options),
    /// Time from a request to the first byte of its response, over two paths and over each alone, in virtual time
    FirstByte(first_byte::Options),
    /// CPU seconds per GB over a fast, long link with little loss, and without, in virtual time
    Lossy(lossy::Options),
    /// Rates, gaps, losses, memory and CPU time of `anabranch proxy`'s tunnel, over links in user space
    Tunnel(tunnel::Options),
    /// Requests that fail while a server is restarted again and again (`anabranch serve --handover`)
    Restarts(restarts::Options),
    /// Memory, tasks and descriptors over hours of connections, paths, streams, cancellations and migrations
    Soak(soak::Options),
    /// Servers behind a load balancer that routes by QUIC-LB: connections that are lost when servers come and go
    Fleet(fleet::Options),
    /// Handshakes and requests at a server with several workers, compared with one worker, with a share of a processor for each
    Workers(workers::Options),
    /// Idle connections that one server process holds: its memory and its processor time
    Held(held::Options),
    /// The server of `held`
    #[command(hide = true)]
    HeldServer(held::server::Options),
    /// A server of `fleet`
    #[command(hide = true)]
    FleetServer(fleet::server::Options),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    if let Benchmark::Guest(options) = &cli.benchmark {
        return compare::guest::run(options).unwrap_or_else(failed);
    }
    let result = match &cli.benchmark {
        Benchmark::FleetServer(options) => fleet::server::run(options),
        Benchmark::HeldServer(options) => held::server::run(options),
        Benchmark::All(options) => all::run(options).and_then(|json| match cli.json.as_deref() {
            Some("-") => {
                println!("{json}");
                Ok(())
            }
            Some(path) => Ok(std::fs::write(path, format!("{json}\n"))?),
            None => Ok(()),
        }),
        benchmark => measure(benchmark).and_then(|result| report::publish(&result, cli.json.as_deref())),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => failed(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the end of an error")]
fn failed(error: Error) -> std::process::ExitCode {
    eprintln!("anabranch-bench: {error}");
    std::process::ExitCode::FAILURE
}

/// Runs a single benchmark.
fn measure(benchmark: &Benchmark) -> Result<report::Report, Error> {
    match benchmark {
        Benchmark::All(_) | Benchmark::Guest(_) | Benchmark::FleetServer(_) | Benchmark::HeldServer(_) => {
            Err("this is no single benchmark".into())
        }
        Benchmark::Pages(options) => receive::pages::run(options),
        Benchmark::Receive(options) => receive::run(options),
        Benchmark::Send(options) => send::run(options),
        Benchmark::Idle(options) => idle::run(options),
        Benchmark::Handshakes(options) => handshakes::run(options),
        Benchmark::Fetch(options) => fetch::run(options),
        Benchmark::Bulk(options) => bulk::run(options),
        Benchmark::Claims(options) => claims::run(options),
        Benchmark::Requests(options) => requests::run(options),
        Benchmark::Aggregation(options) => aggregation::run(options),
        Benchmark::Compare(options) => compare::run(options),
        Benchmark::Failover(options) => failover::run(options),
        Benchmark::FirstByte(options) => first_byte::run(options),
        Benchmark::Lossy(options) => lossy::run(options),
        Benchmark::Simulate(options) => simulate::run(options),
        Benchmark::Tunnel(options) => tunnel::run(options),
        Benchmark::Restarts(options) => restarts::run(options),
        Benchmark::Soak(options) => soak::run(options),
        Benchmark::Fleet(options) => fleet::run(options),
        Benchmark::Held(options) => held::run(options),
        Benchmark::Workers(options) => workers::run(options),
    }
}
