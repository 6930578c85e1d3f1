//! `-v` and `ANABRANCH_LOG`: the library's log, on standard error.

use std::env::{self, VarError};
use std::io::{self, Write};
use std::sync::OnceLock;

use clap::{ArgAction, Args};
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::exit::{Exit, Failure, Result, one_line};
use crate::lines::{Form, Lines};
use crate::screen::Above;

/// Environment variable with the log filter.
const VARIABLE: &str = "ANABRANCH_LOG";
/// Help on the syntax of filters.
const SYNTAX: &str = "write error, warn, info, debug, trace or off, or TARGET=LEVEL, separated by commas";

/// Default filter: only the warning that a trace ended, for instance because the disk is full.
const UNASKED: &str = "anabranch::trace=warn";

/// Queue of log lines, created with the first line.
static LOG: OnceLock<Lines<String>> = OnceLock::new();

/// Amount of logging.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Verbosity {
    /// Log events of connections and paths to standard error; -vv also logs the steps in between, -vvv each
    /// packet. ANABRANCH_LOG selects levels by target, as in anabranch::path=debug, and overrides this option
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl Verbosity {
    /// Starts logging.
    ///
    /// # Errors
    /// Fails if `ANABRANCH_LOG` contains an invalid filter.
    pub(crate) fn begin(self) -> Result {
        let said = match env::var(VARIABLE) {
            Ok(said) => Some(said),
            Err(VarError::NotPresent) => None,
            Err(error @ VarError::NotUnicode(_)) => return Err(bad(&error)),
        };
        let filter = self.filter(said.as_deref())?;
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Log).finish();
        // This process installs no other subscriber.
        let _ = tracing::subscriber::set_global_default(subscriber);
        Ok(())
    }

    /// Returns the filter of the environment (`said`) or else of the command line.
    fn filter(self, said: Option<&str>) -> Result<EnvFilter> {
        let usual = match self.verbose {
            0 => UNASKED,
            1 => "anabranch=info",
            2 => "anabranch=debug",
            _ => "anabranch=trace",
        };
        let said = said.map(str::trim).filter(|said| !said.is_empty());
        let directives = said.unwrap_or(usual);
        // A misspelled level, or any other word, would be taken for a target.
        for word in directives.split(',').map(str::trim).filter(|word| !word.contains(['=', '['])) {
            let is_level = word.parse::<Level>().is_ok() || word.eq_ignore_ascii_case("off");
            if !is_level && !word.starts_with("anabranch") {
                return Err(bad(&format_args!("`{word}` is no level")));
            }
        }
        let filter = EnvFilter::builder().with_regex(false).parse(directives);
        filter.map_err(|error| bad(&format_args!("`{directives}`: {error}")))
    }
}

fn bad(what: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{VARIABLE}: {what}")).or(SYNTAX)
}

/// Waits until all log lines are written, but only for a short time.
pub(crate) fn flush() {
    if let Some(lines) = LOG.get() {
        lines.flush();
    }
}

/// Writer that queues one log event at a time.
#[derive(Clone, Copy, Debug)]
struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let lines = LOG.get_or_init(|| {
            let lost = |lost| format!("anabranch: {lost} lines of the log were lost");
            Lines::start(Above, Form { line: String::clone, lost })
        });
        lines.push(one_line(String::from_utf8_lossy(event).trim_end()));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_understood_or_refused() {
        let filter = |verbose, said| Verbosity { verbose }.filter(said).map(|filter| filter.to_string());
        assert_eq!(filter(0, None).unwrap(), UNASKED);
        assert_eq!(filter(0, Some(" ")).unwrap(), UNASKED);
        assert_eq!(filter(1, None).unwrap(), "anabranch=info");
        assert_eq!(filter(2, Some("")).unwrap(), "anabranch=debug");
        assert_eq!(filter(9, None).unwrap(), "anabranch=trace");
        assert_eq!(filter(1, Some("anabranch::path=debug")).unwrap(), "anabranch::path=debug");
        for good in
            ["off", "WARN", "anabranch::path", "anabranch=debug,h2=warn", "[connection{side=\"x\"}]=info"]
        {
            assert!(filter(0, Some(good)).is_ok(), "{good}");
        }
        for bad in ["inof", "anabranch=loud", "path", "anabranch=info,loud", "=,="] {
            let failure = filter(0, Some(bad)).unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage, "{bad}");
            assert!(failure.to_string().starts_with("ANABRANCH_LOG: "), "{failure}");
        }
    }
}
