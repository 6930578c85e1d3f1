//! Plan of an endpoint's paths, as text: steps, separated by `;` (`peers/README.md` lists them).

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `open ADDRESS [backup]`: open a path to this address and wait until it is validated.
    Open { remote: SocketAddr, backup: bool },
    /// `try ADDRESS`: start to open a path and do not wait.
    Try(SocketAddr),
    /// `refused ADDRESS`: expect that a path to this address cannot be opened.
    Refused(SocketAddr),
    /// `start`: start the work.
    Start,
    /// `at BYTES`: wait until this many bytes of the work have been transferred.
    At(u64),
    /// `wait MS`: wait for this time.
    Wait(Duration),
    /// `abandon PATH`: abandon the path.
    Abandon(u32),
    /// `gone PATH`: wait until the path is abandoned.
    Gone(u32),
    /// `backup PATH`, `available PATH`: set the path's status.
    Status { path: u32, backup: bool },
    /// `update`: initiate a key update.
    Update,
}

/// All steps, each with its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan(pub(super) Vec<(String, Step)>);

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let steps = text.split(';').map(str::trim).filter(|step| !step.is_empty());
        steps.map(|step| Ok((step.to_owned(), step.parse()?))).collect::<Result<_, String>>().map(Self)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words[..] {
            ["open", remote] => Self::Open { remote: number(remote)?, backup: false },
            ["open", remote, "backup"] => Self::Open { remote: number(remote)?, backup: true },
            ["try", remote] => Self::Try(number(remote)?),
            ["refused", remote] => Self::Refused(number(remote)?),
            ["start"] => Self::Start,
            ["at", bytes] => Self::At(number(bytes)?),
            ["wait", ms] => Self::Wait(Duration::from_millis(number(ms)?)),
            ["abandon", path] => Self::Abandon(number(path)?),
            ["gone", path] => Self::Gone(number(path)?),
            ["backup", path] => Self::Status { path: number(path)?, backup: true },
            ["available", path] => Self::Status { path: number(path)?, backup: false },
            ["update"] => Self::Update,
            _ => return Err(format!("unknown step {text:?}")),
        })
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("cannot use {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_step_by_step() {
        let plan: Plan = "open 127.0.0.2:7 backup; start;at 500; available 1 ;".parse().unwrap();
        let steps: Vec<_> = plan.0.iter().map(|(_, step)| *step).collect();
        let remote = "127.0.0.2:7".parse().unwrap();
        let status = Step::Status { path: 1, backup: false };
        assert_eq!(steps, [Step::Open { remote, backup: true }, Step::Start, Step::At(500), status]);
        assert_eq!(plan.0[3].0, "available 1");
        assert_eq!("".parse(), Ok(Plan::default()));
        for wrong in ["open", "open here", "backup on", "abandon -1", "sing"] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
