//! The path of a request, as a name below the root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Maximum length of a request's path, in bytes.
pub(super) const MAX_PATH: usize = 4_096;

/// Characters that are percent-encoded: all but the unreserved ones (RFC 3986 §2.3). The others have no special
/// meaning in a URL or in HTML.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// File that a request asks for. `directory` is `true` if the request's path ends with a slash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    path: PathBuf,
    directory: bool,
}

impl Wanted {
    /// Decodes a path once (RFC 3986 §2.4). Names that are impossible for files give 404. Dot segments give
    /// 400: clients must remove them (RFC 3986 §5.2.4), so only attackers send them.
    pub(super) fn parse(path: &str) -> Result<Self, StatusCode> {
        if path.len() > MAX_PATH {
            return Err(StatusCode::URI_TOO_LONG);
        }
        let relative = path.strip_prefix('/').ok_or(StatusCode::BAD_REQUEST)?;
        if relative.is_empty() {
            return Ok(Self { path: PathBuf::from("."), directory: true });
        }
        let (names, directory) = match relative.strip_suffix('/') {
            Some(names) => (names, true),
            None => (relative, false),
        };
        let path = names.split('/').map(decode).collect::<Result<_, _>>()?;
        Ok(Self { path, directory })
    }

    /// Returns the path relative to the root; `.` for the root itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the path ends with a slash.
    pub(super) fn names_directory(&self) -> bool {
        self.directory
    }

    /// Returns whether the path is the root.
    pub(super) fn is_root(&self) -> bool {
        self.path == Path::new(".")
    }

    /// Returns the path for a URL, with a final slash.
    pub(super) fn as_directory(&self) -> String {
        if self.is_root() {
            return "/".to_owned();
        }
        self.path.iter().fold("/".to_owned(), |url, name| url + &encode(name) + "/")
    }
}

/// Encodes a name for a URL.
pub(super) fn encode(name: &OsStr) -> String {
    percent_encode(name.as_bytes(), ESCAPED).to_string()
}

fn decode(segment: &str) -> Result<PathBuf, StatusCode> {
    if !escapes_are_whole(segment.as_bytes()) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let name: Vec<u8> = percent_decode_str(segment).collect();
    match name.as_slice() {
        b"" => Err(StatusCode::NOT_FOUND),
        b"." | b".." => Err(StatusCode::BAD_REQUEST),
        name if name.contains(&0) || name.contains(&b'/') => Err(StatusCode::BAD_REQUEST),
        name => Ok(PathBuf::from(OsStr::from_bytes(name))),
    }
}

/// Returns whether each `%` is followed by two hexadecimal digits.
fn escapes_are_whole(segment: &[u8]) -> bool {
    let whole = |at: usize| {
        segment.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    (0..segment.len()).filter(|at| segment[*at] == b'%').all(whole)
}

#[cfg(test)]
mod tests;
