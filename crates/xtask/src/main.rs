//! Tasks of the project: `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod attacks;
mod bounds;
mod browser;
mod child;
mod counts;
mod fuzz;
mod interface;
mod interop;
mod model;
mod ours;
mod paths;
mod qpack;
mod soak;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the house rules: sizes, dependencies and import cycles, leftovers, clocks, machine paths
    Tidy {
        /// Instead print the imports between the files of this crate (`transport`, …), or of all crates, as
        /// Mermaid flowcharts
        #[arg(long, value_name = "CRATE", num_args = 0..=1)]
        imports: Option<Option<String>>,
    },
    /// Check that each test which docs/conformance-*.md name passed in a run of `cargo test --workspace`
    Executed {
        /// File with the run's output, both streams in one (`cargo test --workspace 2>&1 | tee FILE`)
        #[arg(value_name = "LOG")]
        log: PathBuf,
    },
    /// Compare the public interfaces of the libraries with docs/interface
    Interface(interface::Arguments),
    /// Run interop cases against other stacks
    Interop(interop::Arguments),
    /// Take each bound of docs/threats.md out of a copy of the workspace; its tests must then fail
    Bounds(bounds::Arguments),
    /// Load a page from `anabranch serve` with Chromium, over HTTP/3
    Browser(browser::Arguments),
    /// Encode and decode header lists with the QPACK coders of other stacks
    Qpack(qpack::Arguments),
    /// Compare the lab's link with ns-3 on the same packet trains
    Model(model::Arguments),
    /// Fetch files while interfaces come and go, in network namespaces
    Paths(paths::Arguments),
    /// Run the attacks of docs/threats.md in full, and measure what they cost
    Attacks(attacks::Arguments),
    /// Fuzz the targets of fuzz/ with coverage, or minimize their corpora
    Fuzz(fuzz::Arguments),
    /// Count the instructions of the stack's work, and compare them with those in the repository
    Counts(counts::Arguments),
    /// Watch memory, tasks and descriptors over hours of churn
    Soak(soak::Arguments),
    #[command(hide = true)]
    Forward(interop::netns::forward::Forward),
    #[command(hide = true)]
    Load(interop::netns::load::Load),
}

fn main() -> ExitCode {
    if let Some(status) = interface::as_rustdoc() {
        return status;
    }
    let root = root();
    let outcome = match Arguments::parse().task {
        Task::Tidy { imports: Some(only) } => tidy::draw_imports(&root, only.as_deref()).map(|()| true),
        Task::Tidy { imports: None } => tidy::run(&root),
        Task::Executed { log } => tidy::executed(&root, &log),
        Task::Interface(arguments) => interface::run(&root, &arguments),
        Task::Interop(arguments) => interop::run(&root, &arguments),
        Task::Bounds(arguments) => bounds::run(&root, &arguments),
        Task::Browser(arguments) => browser::run(&root, &arguments),
        Task::Qpack(arguments) => qpack::run(&root, &arguments),
        Task::Model(arguments) => model::run(&root, &arguments),
        Task::Paths(arguments) => paths::run(&root, &arguments),
        Task::Attacks(arguments) => attacks::run(&root, &arguments),
        Task::Fuzz(arguments) => fuzz::run(&root, &arguments),
        Task::Counts(arguments) => counts::run(&root, &arguments),
        Task::Soak(arguments) => soak::run(&root, &arguments),
        Task::Forward(options) => interop::netns::forward::run(&options),
        Task::Load(options) => interop::netns::load::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the project's root. Cargo provides this crate's folder when it runs the crate; otherwise the
/// current folder must be the root.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = here.as_deref().and_then(|here| here.ancestors().nth(2)).map(Path::to_owned);
    // The path is absolute, because other programs run in different folders.
    root.or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| PathBuf::from("."))
}
