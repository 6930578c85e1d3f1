//! Credentials of a user of a proxy.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use http::HeaderValue;

/// Maximum length of a file with credentials, in bytes.
const MAX_FILE: u64 = 8_192;

/// Credentials of a user of a proxy. They are never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(HeaderValue);

/// Reason why credentials cannot be used. It does not contain them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file is longer than 8,192 bytes, is not UTF-8, or holds other content than the expected one.
    #[error("{path} holds no {wanted}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Content that is expected.
        wanted: &'static str,
    },
    /// The name, the password or the token has characters that cannot be sent, or the token is empty.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Credentials {
    /// Creates credentials of a name and a password (Basic, RFC 7617).
    ///
    /// # Errors
    /// Fails if the name has a colon, or if either has control characters.
    pub fn basic(name: &str, password: &str) -> Result<Self, CredentialsError> {
        // RFC 7617 §2: a user-id cannot have a colon, and neither part control characters.
        if name.contains(':') {
            return Err(CredentialsError::Invalid("a user's name cannot have a colon"));
        }
        if name.chars().chain(password.chars()).any(char::is_control) {
            return Err(CredentialsError::Invalid("a name and a password have no control characters"));
        }
        Self::sensitive(&format!("Basic {}", BASE64.encode(format!("{name}:{password}").as_bytes())))
    }

    /// Creates credentials of a token (Bearer, RFC 6750).
    ///
    /// # Errors
    /// Fails if the token is no `b64token` (RFC 6750 §2.1).
    pub fn bearer(token: &str) -> Result<Self, CredentialsError> {
        let valid = |c: u8| c.is_ascii_alphanumeric() || b"-._~+/".contains(&c);
        let unpadded = token.trim_end_matches('=');
        if unpadded.is_empty() || !unpadded.bytes().all(valid) {
            return Err(CredentialsError::Invalid(
                "a token has letters, digits and -._~+/, and = at its end",
            ));
        }
        Self::sensitive(&format!("Bearer {token}"))
    }

    /// Reads a token from a file that holds nothing else but white space around it.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or holds no token.
    pub fn bearer_file(path: &Path) -> Result<Self, CredentialsError> {
        let wanted = "token";
        let text = read(path, wanted)?;
        Self::bearer(text.trim()).map_err(|_| CredentialsError::Content { path: path.into(), wanted })
    }

    /// Reads a name and a password from a file that holds `NAME:PASSWORD` and nothing else but line ends
    /// after it.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or holds no name and password.
    pub fn basic_file(path: &Path) -> Result<Self, CredentialsError> {
        let wanted = "NAME:PASSWORD";
        let refused = || CredentialsError::Content { path: path.into(), wanted };
        let text = read(path, wanted)?;
        let (name, password) = text.trim_end_matches(['\r', '\n']).split_once(':').ok_or_else(refused)?;
        Self::basic(name, password).map_err(|_| refused())
    }

    /// Returns the value of the fields `Proxy-Authorization` and `Authorization`.
    pub(super) fn value(&self) -> HeaderValue {
        self.0.clone()
    }

    fn sensitive(text: &str) -> Result<Self, CredentialsError> {
        let value = HeaderValue::from_str(text);
        let mut value = value.map_err(|_| CredentialsError::Invalid("the secret cannot be sent"))?;
        // QPACK then encodes it without the dynamic table (RFC 9204 §7.1.3).
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

fn read(path: &Path, wanted: &'static str) -> Result<String, CredentialsError> {
    let failed = |error| CredentialsError::File { path: path.into(), error };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    let refused = || CredentialsError::Content { path: path.into(), wanted };
    if bytes.len() as u64 > MAX_FILE {
        return Err(refused());
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_written_as_their_standards_say() {
        let basic = Credentials::basic("Aladdin", "open sesame").unwrap();
        assert_eq!(basic.value(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let bearer = Credentials::bearer("mF_9.B5f-4.1JqM").unwrap();
        assert_eq!(bearer.value(), "Bearer mF_9.B5f-4.1JqM");
        assert!(bearer.value().is_sensitive());
        assert_eq!(format!("{bearer:?}"), "Credentials(…)");
        assert!(Credentials::basic("a:b", "c").is_err() && Credentials::basic("a", "b\n").is_err());
        assert_eq!(Credentials::bearer("dGVhcw==").unwrap().value(), "Bearer dGVhcw==");
        for bad in ["", "two words", "==", "=a", "a=b", "a=b="] {
            assert!(Credentials::bearer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_hold_one_secret_of_max_file_bytes() {
        let path = std::env::temp_dir().join(format!("anabranch-credentials-{}", std::process::id()));
        let with = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            (Credentials::bearer_file(&path), Credentials::basic_file(&path))
        };
        assert_eq!(with(b"secret\n").0.unwrap().value(), "Bearer secret");
        assert_eq!(with(b"me:pass:word \r\n").1.unwrap().value(), "Basic bWU6cGFzczp3b3JkIA==");
        for bad in [&b""[..], b"\xff", &vec![b'a'; MAX_FILE as usize + 1]] {
            let (bearer, basic) = with(bad);
            let said = format!("{} {}", bearer.unwrap_err(), basic.unwrap_err());
            assert!(said.contains("holds no token") && said.contains("holds no NAME:PASSWORD"), "{said}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Credentials::bearer_file(&path), Err(CredentialsError::File { .. })));
    }
}
