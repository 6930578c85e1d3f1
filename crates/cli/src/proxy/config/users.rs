//! The file with a proxy's users.

use std::path::Path;

use anabranch::proxy::server::{User, UserError, UserLimits, Users};
use serde::Deserialize;
use toml::Spanned;

use super::certificates::Certificates;
use super::{Document, Problem};
use crate::exit::Result;
use crate::size;

/// Contents of the file before they are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    user: Vec<Spanned<WrittenUser>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUser {
    name: Spanned<String>,
    /// Hash of the secret, in the PHC format.
    secret: Option<Spanned<String>>,
    /// `sha256:DIGEST` or `CN=NAME`.
    certificate: Option<Spanned<String>>,
    flows: Option<usize>,
    connections: Option<usize>,
    /// Bytes per second, such as "10MB".
    rate: Option<Spanned<String>>,
}

/// Users, and the client certificates of some of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) users: Users,
    pub(crate) certificates: Certificates,
}

/// Reads the users in a file.
///
/// # Errors
/// Fails with every problem if the file cannot be read or is invalid.
pub(crate) fn read_users(path: &Path) -> Result<Known> {
    let document = Document::read(path)?;
    parse(&document).map_err(|problems| document.failure(&problems))
}

pub(super) fn parse(document: &Document) -> std::result::Result<Known, Vec<Problem>> {
    let written: Written = document.parse().map_err(|problem| vec![problem])?;
    let mut known = Known::default();
    let mut problems = Vec::new();
    if written.user.is_empty() {
        problems.push(Problem::new("there is no [[user]], so nobody could use the proxy"));
    }
    for user in written.user {
        let whole = user.span();
        if let Err(problem) = user.into_inner().add(&mut known, whole) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(known) } else { Err(problems) }
}

impl WrittenUser {
    fn add(self, known: &mut Known, whole: std::ops::Range<usize>) -> std::result::Result<(), Problem> {
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
        let (name, secret) = (self.name.get_ref(), self.secret.as_ref());
        let wrong = |error: UserError| {
            let of_secret = secret.filter(|_| !matches!(error, UserError::Name(_)));
            Problem::at(of_secret.map_or(self.name.span(), Spanned::span), error)
        };
        let user = match (secret, &self.certificate) {
            (Some(secret), _) => User::new(name, secret.get_ref()),
            (None, Some(_)) => User::without_secret(name),
            (None, None) => {
                return Err(Problem::at(whole, format!("'{name}' has neither a secret nor a certificate")));
            }
        };
        let user = user.map_err(wrong)?;
        if let Some(certificate) = &self.certificate {
            let added = known.certificates.add(certificate.get_ref(), name);
            added.map_err(|what| Problem::at(certificate.span(), what))?;
        }
        known.users.add(user.with_limits(limits)).map_err(|error| Problem::at(whole, error))
    }
}
