//! `anabranch lab linux build`: builds a kernel from Debian's source package and stores it in the cache.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_linux::build::{Source, Watch};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::cache;
use crate::exit::{Failure, Result, note, say};

/// Build the kernel, unless the cache contains it already
///
/// The build takes some minutes and, while it runs, 2 GB in the cache ($XDG_CACHE_HOME or ~/.cache). The same
/// command continues an interrupted build.
#[derive(Args, Debug)]
pub(crate) struct Build {
    /// Source of Linux 6.12, unpacked or as an archive [default: Debian's package linux-source-6.12]
    #[arg(long, value_name = "DIR|TARBALL")]
    source: Option<PathBuf>,
}

pub(super) fn run(options: &Build) -> Result {
    let cache = cache()?;
    if let Some(kernel) = cache.kernel() {
        return say(format_args!("Linux {} is there: {}", kernel.version, kernel.program.display()));
    }
    let source = options.source.as_deref().map_or_else(Source::debian, Source::at);
    let source = source.map_err(|error| Failure::from(anabranch_linux::build::BuildError::from(error)))?;
    let bar = Bar(ProgressBar::new(0));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} files, {elapsed} so far") {
        bar.0.set_style(style);
    }
    let built = cache.build(&source, &bar);
    bar.0.finish_and_clear();
    let kernel = built?;
    say(format_args!("Linux {}: {}", kernel.version, kernel.program.display()))
}

/// Progress of a build: a line for each step, and a progress bar for the compilation.
struct Bar(ProgressBar);

impl Watch for Bar {
    fn step(&self, what: &str) {
        self.0.suspend(|| note(what));
    }

    fn compiled(&self, done: usize, of: usize) {
        if done == 1 {
            self.0.enable_steady_tick(Duration::from_millis(500));
        }
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
    }
}
