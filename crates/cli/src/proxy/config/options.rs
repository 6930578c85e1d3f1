//! Options of a command that may also be in a configuration file. The keys of the file are the long options, with underscores.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Id, ValueHint, value_parser};
use toml::Spanned;
use toml::de::DeValue;

use super::{Document, Problem};
use crate::exit::{Exit, Failure, Result, one_line};
use crate::verbose::Verbosity;

/// Name of the option that names the file.
const CONFIG: &str = "config";

/// Command line whose options may also be in the file that `--config` names. Options of the command line take precedence over
/// the same options in the file, and over options in the file with which they conflict.
#[derive(Clone, Debug)]
pub(crate) struct Configured<T> {
    given: Vec<Given>,
    file: Option<PathBuf>,
    verbosity: Verbosity,
    options: PhantomData<fn() -> T>,
}

/// An argument of the command line, or of the file.
#[derive(Clone, Debug)]
struct Given {
    /// ID of the option.
    id: Id,
    /// Index of a positional argument; `None` for a named option.
    index: Option<usize>,
    argument: OsString,
    /// Position of the value in the file; `None` for the command line.
    span: Option<Range<usize>>,
}

impl<T: Args> Configured<T> {
    /// Creates a command line with the option `--config` alone.
    pub(crate) fn of_file(path: &Path) -> Self {
        let file = Some(path.to_owned());
        Self { given: Vec::new(), file, verbosity: Verbosity::default(), options: PhantomData }
    }

    /// Returns the logging options, which are accepted on the command line only.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Returns whether there is a file, which can be read again.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the file, if there is one, and returns the options.
    ///
    /// # Errors
    /// Fails with every problem if the file cannot be read or is invalid.
    pub(crate) fn read(&self) -> Result<T> {
        let Some(file) = &self.file else {
            return parse(&self.given).map_err(|error| Failure::new(Exit::Usage, first_paragraph(&error)));
        };
        let document = Document::read(file)?;
        self.merged(&document).map_err(|problems| document.failure(&problems))
    }

    fn merged(&self, document: &Document) -> std::result::Result<T, Vec<Problem>> {
        let command = command::<T>();
        let written = written(&command, document)?;
        let mut decided: BTreeSet<Id> = self.given.iter().map(|given| given.id.clone()).collect();
        let is_given = |id: &Id| self.given.iter().any(|given| given.id == *id);
        for arg in command.get_arguments() {
            // A conflict is declared at one of the two options only.
            for other in command.get_arg_conflicts_with(arg) {
                let (one, other) = (arg.get_id(), other.get_id());
                decided.extend(is_given(one).then(|| other.clone()));
                decided.extend(is_given(other).then(|| one.clone()));
            }
        }
        let from_file = written.iter().filter(|written| !decided.contains(&written.id));
        let all: Vec<_> = from_file.chain(&self.given).cloned().collect();
        parse(&all).map_err(|error| vec![placed(&error, &written, &command)])
    }
}

/// Returns how many of a file's keys are options of `T`.
pub(crate) fn known_keys<T: Args>(keys: &[&str]) -> usize {
    let command = command::<T>();
    keys.iter().filter(|key| option(&command, key).is_some()).count()
}

/// Returns a parser of the options of `T` alone.
fn command<T: Args>() -> Command {
    let mut command = T::augment_args(Command::new("options").no_binary_name(true));
    // Positional arguments have no index before.
    command.build();
    command
}

fn parse<T: Args>(given: &[Given]) -> std::result::Result<T, clap::Error> {
    let mut arguments: Vec<OsString> =
        given.iter().filter(|given| given.index.is_none()).map(|given| given.argument.clone()).collect();
    let mut placed: Vec<_> = given.iter().filter(|given| given.index.is_some()).collect();
    placed.sort_by_key(|given| given.index);
    arguments.push("--".into());
    arguments.extend(placed.into_iter().map(|given| given.argument.clone()));
    T::from_arg_matches(&command::<T>().try_get_matches_from(arguments)?)
}

/// Converts the keys of a file to arguments. Fails with all problems.
fn written(command: &Command, document: &Document) -> std::result::Result<Vec<Given>, Vec<Problem>> {
    // Each value is checked alone, so no other option may be required.
    let lenient = command.clone().mut_args(|arg| arg.required(false));
    let (mut written, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in document.table().map_err(|problem| vec![problem])? {
        let Some(arg) = option(command, key.get_ref()) else {
            problems.push(Problem::at(key.span(), unknown(&lenient, key.get_ref())));
            continue;
        };
        match arguments(arg, &value, document) {
            Ok(arguments) => {
                for (argument, span) in arguments {
                    if let Some(what) = wrong(&lenient, arg, &argument) {
                        problems.push(Problem::at(span.clone(), format!("{}: {what}", key.get_ref())));
                    }
                    let (id, index) = (arg.get_id().clone(), arg.get_index());
                    written.push(Given { id, index, argument, span: Some(span) });
                }
            }
            Err((what, span)) => problems.push(Problem::at(span, format!("{}: {what}", key.get_ref()))),
        }
    }
    if problems.is_empty() { Ok(written) } else { Err(problems) }
}

/// Returns the option with this key, in which dashes and underscores are equal.
fn option<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command.get_arguments().filter(|arg| takes_values(arg)).find(|arg| key_of(arg) == key.replace('-', "_"))
}

fn key_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or(arg.get_id().as_str()).replace('-', "_")
}

/// A value, and its position in the file.
type Placed<T> = (T, Range<usize>);

/// Converts a value of the file to arguments for `arg`.
fn arguments(
    arg: &Arg,
    value: &Spanned<DeValue<'_>>,
    document: &Document,
) -> std::result::Result<Vec<Placed<OsString>>, Placed<&'static str>> {
    let values = match value.get_ref() {
        DeValue::Array(values) if takes_several(arg) => values.iter().collect(),
        DeValue::Array(_) => return Err(("one value is wanted, and no list", value.span())),
        _ => vec![value],
    };
    let argument = |value: &Spanned<DeValue<'_>>| {
        let text = match value.get_ref() {
            DeValue::Boolean(is_set) if matches!(arg.get_action(), ArgAction::SetTrue) => {
                return Ok(is_set.then(|| (flag(arg), value.span())));
            }
            _ if matches!(arg.get_action(), ArgAction::SetTrue) => {
                return Err(("true or false is wanted", value.span()));
            }
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => return Err(("a string or a decimal number is wanted", value.span())),
        };
        let text = match arg.get_value_hint() {
            ValueHint::AnyPath | ValueHint::FilePath => document.beside(Path::new(&text)).into_os_string(),
            _ => text.into(),
        };
        Ok(Some((valued(arg, text), value.span())))
    };
    values.into_iter().filter_map(|value| argument(value).transpose()).collect()
}

/// Returns whether an argument is an option or a flag that a file can contain, unlike `--help`.
fn takes_values(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue)
}

fn takes_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn flag(arg: &Arg) -> OsString {
    format!("--{}", arg.get_long().unwrap_or_default()).into()
}

/// Returns the argument that gives `arg` a value.
fn valued(arg: &Arg, value: OsString) -> OsString {
    if arg.is_positional() {
        return value;
    }
    let mut argument = flag(arg);
    argument.push("=");
    argument.push(value);
    argument
}

/// Returns the mistake in one argument, if there is one, without regard to other arguments.
fn wrong(lenient: &Command, arg: &Arg, argument: &OsString) -> Option<String> {
    let mut line: Vec<OsString> = Vec::new();
    if let Some(index) = arg.get_index() {
        line.push("--".into());
        // The positional arguments in front of it are checked separately.
        line.extend(std::iter::repeat_n(OsString::from("x"), index - 1));
    }
    line.push(argument.clone());
    let error = lenient.clone().try_get_matches_from(line).err()?;
    let is_about_others =
        matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict);
    (!is_about_others).then(|| first_paragraph(&error))
}

fn unknown(lenient: &Command, key: &str) -> String {
    let asked = lenient.clone().try_get_matches_from([format!("--{}=x", key.replace('_', "-"))]).err();
    let nearest = asked.as_ref().and_then(|error| error.get(ContextKind::SuggestedArg));
    match nearest {
        Some(ContextValue::String(name)) => {
            let name = name.trim_start_matches('-').replace('-', "_");
            format!("unknown key `{key}`; did you mean `{name}`?")
        }
        _ => format!("unknown key `{key}`; keys are the long options of the command, with underscores"),
    }
}

/// Returns a problem that several options cause together, at the position of one of them.
fn placed(error: &clap::Error, written: &[Given], command: &Command) -> Problem {
    let named = |id: &Id, shown: &str| {
        command.get_arguments().any(|arg| arg.get_id() == id && arg.to_string() == *shown)
    };
    let what = match error.kind() {
        ErrorKind::MissingRequiredArgument => missing(error),
        _ => first_paragraph(error),
    };
    let place = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => written.iter().find(|written| named(&written.id, shown)),
        _ => None,
    };
    match place.and_then(|written| written.span.clone()) {
        Some(span) => Problem::at(span, what),
        None => Problem::new(what),
    }
}

fn missing(error: &clap::Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => {
            format!("missing, here or on the command line: {}", names.join(", "))
        }
        _ => first_paragraph(error),
    }
}

/// Returns the first paragraph of an error as one line; the other paragraphs explain the command line.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<_> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    one_line(lines.join(" ").trim_start_matches("error: "))
}

impl<T: Args> FromArgMatches for Configured<T> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let command = command::<T>();
        let is_given = |arg: &&Arg| {
            takes_values(arg) && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let mut given = Vec::new();
        for arg in command.get_arguments().filter(is_given) {
            let mut add = |argument| {
                let (id, index) = (arg.get_id().clone(), arg.get_index());
                given.push(Given { id, index, argument, span: None });
            };
            match arg.get_action() {
                ArgAction::SetTrue => add(flag(arg)),
                ArgAction::Set | ArgAction::Append => matches
                    .get_raw(arg.get_id().as_str())
                    .into_iter()
                    .flatten()
                    .for_each(|value| add(valued(arg, value.to_owned()))),
                _ => {}
            }
        }
        let verbosity = Verbosity::from_arg_matches(matches)?;
        let file = matches.get_one::<PathBuf>(CONFIG).cloned();
        Ok(Self { given, file, verbosity, options: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Args> Args for Configured<T> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Take options that are not given here from a file in TOML, read again on SIGHUP; see `anabranch proxy check`");
        let optional = |arg: Arg| {
            if arg.is_required_set() { arg.required(false).required_unless_present(CONFIG) } else { arg }
        };
        let command = T::augment_args(command).mut_args(optional).arg(config);
        // Added options replace the description of the command by that of their type.
        let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
        let command = Verbosity::augment_args(command).about(about.unwrap_or_default());
        match long {
            Some(long) => command.long_about(long),
            None => command.long_about(None::<&'static str>),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests;
