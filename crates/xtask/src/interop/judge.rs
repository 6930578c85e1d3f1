//! Outcomes of cases, derived from the observations.

use serde_json::Value;

use super::case::{Case, Check, Expected};
use super::process::{Ended, UNSUPPORTED, last_line, missing};
use super::watch::Seen;

/// Cell of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Case that passed, with a remark.
    Pass(String),
    /// Case that one side does not support, with the side and the reason.
    Unsupported(String),
    /// Case that was not run, with the reason.
    Skipped(String),
    /// Case that failed because of a fault in the other stack, with the fault.
    Foreign(String),
    /// Case that failed, with the reason.
    Failed(String),
}

/// Maximum number of bytes that a server may send in reply to a first flight of 1200 bytes. A server that came
/// within 1200 bytes of this maximum was stopped by the amplification limit.
const LIMIT_IS_FELT: u64 = 3 * 1200;

/// Judges a client that has ended. `seen` contains the observations on the wire, if there was an observer.
pub(super) fn judge(case: &Case, ended: &Ended, seen: Option<&Seen>) -> Outcome {
    if ended.code == Some(UNSUPPORTED) {
        return Outcome::Unsupported(format!("client: {}", missing(&ended.log)));
    }
    if ended.timed_out {
        return Outcome::Failed(format!("client took longer than {} s", case.patience.as_secs()));
    }
    if ended.code != Some(0) {
        return Outcome::Failed(format!("client: {}", last_line(&ended.log)));
    }
    let report: Value = serde_json::from_str(last_line(&ended.output)).unwrap_or(Value::Null);
    let broken: Vec<String> =
        case.checks.iter().filter_map(|check| verify(check, &report, seen).err()).collect();
    if broken.is_empty() {
        Outcome::Pass(remark(case, ended, &report, seen))
    } else {
        Outcome::Failed(broken.join("; "))
    }
}

fn verify(check: &Check, report: &Value, seen: Option<&Seen>) -> Result<(), String> {
    let ensure = |held: bool, broken: String| if held { Ok(()) } else { Err(broken) };
    if let Check::Reported(key, expected) = check {
        let value = &report[*key];
        let held = match expected {
            Expected::True => value == &Value::Bool(true),
            Expected::Is(text) => value.as_str() == Some(text),
            Expected::AtLeast(least) => value.as_f64().is_some_and(|number| number >= *least),
        };
        return ensure(held, format!("client reports {key} = {value}"));
    }
    let Some(seen) = seen else { return Err("nobody watched".to_owned()) };
    match check {
        Check::Retry => {
            ensure(seen.retries > 0, "no Retry".to_owned())?;
            ensure(seen.tokens > 0, "no Initial with a token".to_owned())
        }
        Check::NoRetry => ensure(seen.retries == 0, "an unasked Retry".to_owned()),
        Check::VersionNegotiation => ensure(seen.negotiations > 0, "no Version Negotiation".to_owned()),
        Check::Version(version) => {
            let only = seen.versions.len() == 1 && seen.versions.contains(version);
            ensure(only, format!("Handshake packets of versions {:?}", seen.versions))
        }
        Check::ZeroRtt => ensure(seen.zero_rtt > 0, "no 0-RTT packet".to_owned()),
        Check::Amplification => {
            ensure(seen.excess == 0, format!("{} bytes above three times the client's", seen.excess))?;
            let felt = seen.unvalidated > LIMIT_IS_FELT - 1200;
            ensure(felt, format!("the first flight had only {} bytes", seen.unvalidated))
        }
        Check::AliveAt(at) => {
            let last = seen.last_to_client;
            ensure(last >= *at, format!("the last datagram came after {:.1} s", last.as_secs_f64()))
        }
        Check::Addresses(count) => {
            let served = seen.addresses_served;
            ensure(served >= *count, format!("the server has sent to {served} addresses"))
        }
        Check::Reported(..) => Ok(()),
    }
}

/// Returns the remark on a case that passed: a value that it measured, such as the goodput, or else its
/// duration.
fn remark(case: &Case, ended: &Ended, report: &Value, seen: Option<&Seen>) -> String {
    for check in &case.checks {
        match (check, seen) {
            (Check::Reported("goodput_mbps", _), _) => {
                return format!("{:.2} Mbit/s", report["goodput_mbps"].as_f64().unwrap_or_default());
            }
            (Check::Reported(key, _), None) => return format!("{key} {}", report[*key]),
            (Check::Amplification, Some(seen)) => {
                return format!("{} bytes before validation", seen.unvalidated);
            }
            _ => {}
        }
    }
    format!("{:.1} s", ended.elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests;
