//! Files below a root, and `hq-interop`: HTTP/0.9 over QUIC, as in the interop runner. A request is `GET
//! /path\r\n`, and the response is the file.

use std::path::{Component, Path, PathBuf};

/// Maximum length of a request line, in bytes.
pub const MAX_REQUEST: usize = 4096;

/// Returns the request for a path. A missing leading slash is added.
pub fn request(path: &str) -> Vec<u8> {
    format!("GET /{}\r\n", path.trim_start_matches('/')).into_bytes()
}

/// Returns the requested file below `root`; `None` if the request is malformed or its path leaves `root`.
pub fn requested(root: &Path, request: &[u8]) -> Option<PathBuf> {
    let line = std::str::from_utf8(request).ok()?;
    let path = line.strip_prefix("GET ")?.trim_end_matches(['\r', '\n']);
    below(root, path)
}

/// Returns the file in which a client stores the response to `path`: the last component of the path, inside
/// `out`.
pub fn destination(out: &Path, path: &str) -> Option<PathBuf> {
    below(out, Path::new(path).file_name()?.to_str()?)
}

/// Returns the file that `path` names below `root`; `None` if it leaves `root` or is empty.
pub fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && relative.components().next().is_some()).then(|| root.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_file_below_the_root() {
        let root = Path::new("/www");
        assert_eq!(requested(root, &request("a/b")), Some(PathBuf::from("/www/a/b")));
        assert_eq!(requested(root, b"GET /a"), Some(PathBuf::from("/www/a")));
        for bad in [&b"GET /../etc/passwd\r\n"[..], b"GET /\r\n", b"PUT /a\r\n", b"\xff"] {
            assert_eq!(requested(root, bad), None);
        }
    }

    #[test]
    fn an_answer_is_stored_under_its_last_component() {
        assert_eq!(destination(Path::new("/out"), "/x/y.bin"), Some(PathBuf::from("/out/y.bin")));
        assert_eq!(destination(Path::new("/out"), "/.."), None);
    }
}
