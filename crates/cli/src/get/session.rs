//! `--session-file`: state of this run that a later run can present to the same servers.
//!
//! The file contains address tokens (NEW_TOKEN, RFC 9000 §8.1.3). It contains no TLS sessions, because rustls
//! cannot serialize them.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anabranch::{AddressToken, Version};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Result};

/// Maximum length of a file that is read, in bytes: several times what this program writes.
const MAX_FILE: u64 = 1 << 20;
/// Mode of the file: readable by its owner only, because a token identifies the client.
const MODE: u32 = 0o600;

/// File of address tokens.
pub(super) struct SessionFile(PathBuf);

impl SessionFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the tokens in the file, or none if it does not exist.
    pub(super) fn load(&self) -> Result<Vec<AddressToken>> {
        let name = self.0.display();
        let mut text = String::new();
        let read = File::open(&self.0).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(Failure::io(format_args!("cannot read {name}"), &error)),
            Ok(_) => {}
        }
        tokens(&text).ok_or_else(|| {
            let failure = Failure::new(Exit::Usage, format!("{name} is not a session file"));
            failure.or("name another one, or remove it")
        })
    }

    /// Replaces the content of the file with `tokens`.
    pub(super) fn store(&self, tokens: &[AddressToken]) -> Result {
        let line = |token: &AddressToken| {
            json!({
                "server_name": token.server_name,
                "version": token.version.0,
                "token": BASE64.encode(&token.token),
            })
        };
        let text = json!({ "tokens": tokens.iter().map(line).collect::<Vec<_>>() }).to_string();
        replace(&self.0, text.as_bytes())
            .map_err(|error| Failure::io(format_args!("cannot write {}", self.0.display()), &error))
    }
}

fn tokens(text: &str) -> Option<Vec<AddressToken>> {
    if text.len() as u64 > MAX_FILE {
        return None;
    }
    let file: Value = serde_json::from_str(text).ok()?;
    file.get("tokens")?.as_array()?.iter().map(token).collect()
}

fn token(value: &Value) -> Option<AddressToken> {
    let server_name = value.get("server_name")?.as_str()?.to_owned();
    let version = Version(u32::try_from(value.get("version")?.as_u64()?).ok()?);
    let token = BASE64.decode(value.get("token")?.as_str()?.as_bytes()).ok()?;
    Some(AddressToken::new(server_name, version, token))
}

/// Replaces a file atomically: readers see either the old content or the new one.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(dir)?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        let file = SessionFile::new(path.clone());
        assert_eq!(file.load().unwrap(), []);
        let token = |n: u8| AddressToken::new(format!("host {n}"), Version::V2, vec![n; 60]);
        file.store(&[token(1), token(2)]).unwrap();
        assert_eq!(file.load().unwrap(), [token(1), token(2)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        file.store(&[]).unwrap();
        assert_eq!(file.load().unwrap(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_session_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        let long = format!("{{\"tokens\":[]}}{}", " ".repeat(MAX_FILE as usize));
        for bad in [&b""[..], b"{}", b"[]", b"\xff", b"{\"tokens\":[{}]}", long.as_bytes()] {
            fs::write(&path, bad).unwrap();
            assert_eq!(SessionFile::new(path.clone()).load().unwrap_err().exit(), Exit::Usage);
        }
    }
}
