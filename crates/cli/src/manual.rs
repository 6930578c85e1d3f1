//! `anabranch completions` and `anabranch man`: what shells and readers need, made from the parser itself.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{Failure, Result, say};

/// Print the completion script of a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write one for each command into a directory
#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// Directory for the pages anabranch.1, anabranch-serve.1 and so on; it is made if need be
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn completions(options: &Completions, mut command: Command) -> Result {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    say(String::from_utf8_lossy(&script).trim_end())
}

pub(crate) fn manual(options: &Manual, command: Command) -> Result {
    let Some(dir) = &options.out else {
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page).and_then(|()| std::io::stdout().write_all(&page));
        return rendered.map_err(|error| Failure::io("cannot write to standard output", &error));
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
    written.map_err(|error| Failure::io(format_args!("cannot write pages to {}", dir.display()), &error))
}
