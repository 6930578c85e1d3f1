//! `anabranch completions` and `anabranch man`: shell completions and manual pages, generated from the
//! parser.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{Failure, Result, say};

/// Print the completion script of a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

/// Print the manual page, or write one for each command into a directory
#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// Directory for the pages anabranch.1, anabranch-serve.1 and so on; it is created if necessary
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
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(dir) = &options.out else {
        let shown = page(&command).and_then(|page| io::stdout().write_all(&page));
        return shown.map_err(|error| Failure::io("cannot write to standard output", &error));
    };
    let written = fs::create_dir_all(dir).and_then(|()| write_pages(&command, dir));
    written.map_err(|error| Failure::io(format_args!("cannot write pages to {}", dir.display()), &error))
}

/// Writes the manual page of a command, and those of its subcommands.
fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    fs::write(dir.join(format!("{}.1", name(command))), page(command)?)?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| write_pages(command, dir))
}

/// Returns the command's name with those of its parent commands: `anabranch-perf-client`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).title(name(command));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis(command).bytes());
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    Ok(page)
}

/// Returns the synopsis of the command: every option with the name of its value, which `clap_mangen` omits.
fn synopsis(command: &Command) -> String {
    let called = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut words = vec![format!("\\fB{}\\fR", escape(called))];
    let shown = |arg: &&Arg| !arg.is_hide_set();
    words.extend(command.get_opts().chain(flags(command)).filter(shown).map(option));
    if command.has_subcommands() {
        words.push("\\fICOMMAND\\fR".to_owned());
    }
    words.extend(command.get_positionals().filter(shown).map(|arg| {
        let value = format!("\\fI{}\\fR{}", escape(&values(arg)), dots(arg));
        if arg.is_required_set() { value } else { format!("[{value}]") }
    }));
    format!(".SH SYNOPSIS\n{}\n", words.join("\n"))
}

/// Returns the options without values.
fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !takes_value(arg))
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|number| number.takes_values())
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("\\fB\\-{short}\\fR"));
    let long = arg.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", escape(long)));
    let mut text = [short, long].into_iter().flatten().collect::<Vec<_>>().join("|");
    if takes_value(arg) {
        text.push_str(&format!(" \\fI{}\\fR", escape(&values(arg))));
    }
    format!("[{text}]{}", dots(arg))
}

fn values(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    if names.is_empty() { arg.get_id().as_str().to_uppercase() } else { names.join(" ") }
}

/// Returns `...` if the argument may be repeated, otherwise nothing.
fn dots(arg: &Arg) -> &'static str {
    let several = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    if several || matches!(arg.get_action(), ArgAction::Append) { "..." } else { "" }
}

/// Escapes roff's special characters in `text`.
fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synopsis_has_the_values_of_options() {
        let mut command = Command::new("tool")
            .arg(Arg::new("ca").long("ca").value_name("PEM"))
            .arg(Arg::new("path").long("path").value_name("IF|ADDR").action(ArgAction::Append))
            .arg(Arg::new("quiet").short('q').long("quiet").action(ArgAction::SetTrue))
            .arg(Arg::new("hidden").long("hidden").hide(true))
            .arg(Arg::new("url").value_name("URL").required(true).num_args(1..));
        command.build();
        let expected = ".SH SYNOPSIS\n\\fBtool\\fR\n[\\fB\\-\\-ca\\fR \\fIPEM\\fR]\n\
                        [\\fB\\-\\-path\\fR \\fIIF|ADDR\\fR]...\n[\\fB\\-q\\fR|\\fB\\-\\-quiet\\fR]\n\
                        [\\fB\\-h\\fR|\\fB\\-\\-help\\fR]\n\\fIURL\\fR...\n";
        assert_eq!(synopsis(&command), expected);
    }
}
