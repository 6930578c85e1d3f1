//! Users of a proxy, and their secrets.

mod failures;
mod secret;
mod verify;

use std::collections::BTreeMap;
use std::fmt;

use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHashString, PasswordHasher, SaltString};

pub(super) use self::verify::Verifier;

use super::limits::UserLimits;

/// Maximum length of a user's name, in bytes.
const MAX_NAME: usize = 64;
/// Maximum length of a secret, in bytes.
const MAX_SECRET: usize = 1_024;

/// Users of a proxy. Without users and [`Users::with_anyone`], the proxy opens no tunnel.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_name: BTreeMap<String, User>,
    /// Limits of clients without credentials; `None` if credentials are required.
    anyone: Option<UserLimits>,
}

/// A user of a proxy, whom the proxy authenticates by a name and a secret, or by the connection ([`KnownUser`]).
#[derive(Clone)]
pub struct User {
    name: String,
    /// `None` for a user without a secret.
    hash: Option<PasswordHashString>,
    limits: UserLimits,
}

/// Name of a user whom the connection has authenticated, for instance by a client certificate. A server adds it to the
/// extensions of requests. Such a user needs no other credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownUser(String);

impl KnownUser {
    /// Creates the extension for requests of this user.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Reason why a user cannot be added, or a secret cannot be hashed. It does not contain the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// The name is empty, too long, or has other characters than the allowed ones.
    #[error("a user's name has 1 to 64 ASCII letters, digits, '-' and '_', and '{0}' has not")]
    Name(String),
    /// The hash is not a valid hash of argon2.
    #[error("the secret of '{0}' is not an argon2 hash; `anabranch proxy hash` makes one")]
    Hash(String),
    /// There is a user with this name already.
    #[error("there are two users '{0}'")]
    Twice(String),
    /// The secret is empty, or longer than 1,024 bytes.
    #[error("a secret has 1 to 1024 bytes")]
    Secret,
}

impl User {
    /// Creates a user from a name and the hash of a secret, in the PHC format (`$argon2id$…`).
    ///
    /// # Errors
    /// Fails if the name does not have 1 to 64 ASCII letters, digits, `-` and `_`, or if the hash is not one of argon2.
    pub fn new(name: &str, hash: &str) -> Result<Self, UserError> {
        let user = Self::without_secret(name)?;
        let parsed = PasswordHashString::new(hash).ok().filter(|hash| {
            let known = argon2::Algorithm::try_from(hash.algorithm()).is_ok();
            known && hash.hash().is_some() && argon2::Params::try_from(&hash.password_hash()).is_ok()
        });
        let hash = parsed.ok_or_else(|| UserError::Hash(name.to_owned()))?;
        Ok(Self { hash: Some(hash), ..user })
    }

    /// Creates a user without a secret, whom the connection must authenticate ([`KnownUser`]).
    ///
    /// # Errors
    /// Fails if the name does not have 1 to 64 ASCII letters, digits, `-` and `_`.
    pub fn without_secret(name: &str) -> Result<Self, UserError> {
        let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(good) {
            return Err(UserError::Name(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), hash: None, limits: UserLimits::default() })
    }

    /// Returns the user with these limits.
    #[must_use]
    pub fn with_limits(self, limits: UserLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn limits(&self) -> &UserLimits {
        &self.limits
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Users {
    /// Creates an empty list of users.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens tunnels for clients without valid credentials, too. They have these limits together, as one user `*`. Access to
    /// such an open proxy should be restricted by other means, for instance a firewall.
    #[must_use]
    pub fn with_anyone(self, limits: UserLimits) -> Self {
        Self { anyone: Some(limits), ..self }
    }

    /// Adds a user.
    ///
    /// # Errors
    /// Fails if there is a user with this name.
    pub fn add(&mut self, user: User) -> Result<(), UserError> {
        if self.by_name.contains_key(&user.name) {
            return Err(UserError::Twice(user.name));
        }
        self.by_name.insert(user.name.clone(), user);
        Ok(())
    }

    /// Returns the number of users.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there is no user.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&User> {
        self.by_name.get(name)
    }

    pub(super) fn anyone(&self) -> Option<&UserLimits> {
        self.anyone.as_ref()
    }
}

/// Hashes a secret with argon2id, for [`User::new`].
///
/// # Errors
/// Fails if the secret is empty or longer than 1,024 bytes.
pub fn hash_secret(secret: &[u8]) -> Result<String, UserError> {
    if secret.is_empty() || secret.len() > MAX_SECRET {
        return Err(UserError::Secret);
    }
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(secret, &salt);
    hash.map(|hash| hash.to_string()).map_err(|_| UserError::Secret)
}

#[cfg(test)]
mod tests;
