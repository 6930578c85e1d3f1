//! Content and header fields of the responses of all HTTP/3 servers. They are the same for all, so that
//! comparisons are fair.

use std::path::Path;

use crate::{PATTERN, files};

/// `content-type` of every response.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// Content of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// This many bytes of the pattern, from memory: the response to `/bytes/N`.
    Pattern(u64),
    /// Content of a file.
    File(Vec<u8>),
}

impl Content {
    /// Returns the content's length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Pattern(count) => *count,
            Self::File(body) => body.len() as u64,
        }
    }

    /// Returns whether the content is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the content for `GET path`, or `None` for status 404.
pub fn content(root: Option<&Path>, path: &str) -> Option<Content> {
    if let Some(count) = path.strip_prefix("/bytes/") {
        return count.parse().ok().map(Content::Pattern);
    }
    std::fs::read(files::below(root?, path)?).ok().map(Content::File)
}

/// Returns the next piece of the pattern if `left` bytes remain.
pub fn piece(left: u64) -> &'static [u8] {
    &PATTERN[..left.min(PATTERN.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_from_memory_and_files_from_below_the_root() {
        assert_eq!(content(None, "/bytes/100"), Some(Content::Pattern(100)));
        assert_eq!(content(None, "/bytes/many"), None);
        assert_eq!(content(None, "/Cargo.toml"), None);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = std::fs::read(root.join("Cargo.toml")).unwrap();
        assert_eq!(content(Some(root), "/Cargo.toml"), Some(Content::File(manifest)));
        assert_eq!(content(Some(root), "/src/../Cargo.toml"), None);
        assert_eq!(content(Some(root), "/src"), None);
    }

    #[test]
    fn pieces_are_never_longer_than_the_pattern() {
        assert_eq!((piece(0).len(), piece(100).len(), piece(1 << 40).len()), (0, 100, PATTERN.len()));
    }
}
