//! External stacks, which an engine outside the simulator runs.

use core::fmt;
use core::str::FromStr;

/// A stack of an engine outside the simulator. Text form: `ENGINE/STACK` or `ENGINE/STACK/SETUP`, for example
/// `linux/tcp-cubic/tls12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Name of the engine.
    pub engine: String,
    /// Name by which the engine knows the stack.
    pub stack: String,
    /// Name of the stack's settings, empty for the usual ones. Runs over several paths are compared with runs
    /// over one path with the same setup.
    pub setup: String,
}

impl External {
    /// Returns the engine with the setup, for example `linux/tls12`. Only runs of the same family are
    /// comparable.
    pub fn family(&self) -> String {
        let Self { engine, setup, .. } = self;
        if setup.is_empty() { engine.clone() } else { format!("{engine}/{setup}") }
    }
}

impl fmt::Display for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, stack, setup } = self;
        write!(f, "{engine}/{stack}")?;
        if setup.is_empty() { Ok(()) } else { write!(f, "/{setup}") }
    }
}

/// Error for a text that does not name a stack of an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no stack: expected ENGINE/STACK or ENGINE/STACK/SETUP, for example linux/tcp-cubic/tls12")]
pub struct ParseExternalError(String);

impl FromStr for External {
    type Err = ParseExternalError;

    fn from_str(text: &str) -> Result<Self, ParseExternalError> {
        let named = |part: &&str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        };
        let parts: Vec<&str> = text.split('/').collect();
        let (engine, stack, setup) = match parts[..] {
            [engine, stack] => (engine, stack, ""),
            [engine, stack, setup] if named(&setup) => (engine, stack, setup),
            _ => return Err(ParseExternalError(text.to_owned())),
        };
        if [engine, stack].iter().all(named) {
            Ok(Self { engine: engine.to_owned(), stack: stack.to_owned(), setup: setup.to_owned() })
        } else {
            Err(ParseExternalError(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_read_as_it_is_written() {
        for text in ["linux/mptcp", "linux/tcp-cubic/tls12"] {
            assert_eq!(text.parse::<External>().unwrap().to_string(), text);
        }
        assert_eq!("a/b/c".parse::<External>().unwrap().family(), "a/c");
        assert_eq!("a/b".parse::<External>().unwrap().family(), "a");
        for wrong in ["linux", "/b", "a/", "a/b/", "a/b/c/d", "a b/c"] {
            assert!(wrong.parse::<External>().is_err(), "{wrong}");
        }
    }
}
