//! The file with a proxy's users.

use std::path::Path;

use anabranch::proxy::server::{User, UserError, UserLimits, Users};
use serde::Deserialize;
use toml::Spanned;

use super::{Document, Problem};
use crate::exit::Result;
use crate::size;

/// The file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    user: Vec<Spanned<WrittenUser>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUser {
    name: Spanned<String>,
    secret: Spanned<String>,
    flows: Option<usize>,
    connections: Option<usize>,
    /// Bytes per second, such as "10MB".
    rate: Option<Spanned<String>>,
}

/// Reads the users in a file.
///
/// # Errors
/// Fails with every problem if the file cannot be read or is invalid.
pub(crate) fn read_users(path: &Path) -> Result<Users> {
    let document = Document::read(path)?;
    parse(&document).map_err(|problems| document.failure(&problems))
}

pub(super) fn parse(document: &Document) -> std::result::Result<Users, Vec<Problem>> {
    let written: Written = document.parse().map_err(|problem| vec![problem])?;
    let mut users = Users::new();
    let mut problems = Vec::new();
    if written.user.is_empty() {
        problems.push(Problem::new("there is no [[user]], so nobody could use the proxy"));
    }
    for user in written.user {
        let whole = user.span();
        if let Err(problem) = user.into_inner().add(&mut users, whole) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

impl WrittenUser {
    fn add(self, users: &mut Users, whole: std::ops::Range<usize>) -> std::result::Result<(), Problem> {
        let mut limits = UserLimits::default();
        if let Some(flows) = self.flows {
            limits = limits.with_max_flows(flows);
        }
        if let Some(connections) = self.connections {
            limits = limits.with_max_connections(connections);
        }
        if let Some(rate) = &self.rate {
            let parsed = size::parse(rate.get_ref()).ok().filter(|rate| *rate > 0);
            let wrong = || Problem::at(rate.span(), "a rate is a number of bytes per second, as in \"10MB\"");
            limits = limits.with_rate(parsed.ok_or_else(wrong)?);
        }
        let wrong = |error: UserError| {
            let at = if matches!(error, UserError::Name(_)) { self.name.span() } else { self.secret.span() };
            Problem::at(at, error)
        };
        let user = User::new(self.name.get_ref(), self.secret.get_ref()).map_err(wrong)?;
        users.add(user.with_limits(limits)).map_err(|error| Problem::at(whole, error))
    }
}
