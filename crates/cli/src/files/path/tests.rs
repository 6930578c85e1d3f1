use proptest::prelude::*;

use super::*;

fn parsed(path: &str) -> (PathBuf, bool) {
    let wanted = Wanted::parse(path).unwrap();
    (wanted.path, wanted.directory)
}

#[test]
fn paths_are_decoded_once() {
    assert_eq!(parsed("/"), (".".into(), true));
    assert_eq!(parsed("/a/b.txt"), ("a/b.txt".into(), false));
    assert_eq!(parsed("/a%20b/"), ("a b".into(), true));
    assert_eq!(parsed("/%252e%252e"), ("%2e%2e".into(), false));
    assert_eq!(parsed("/...%5c"), ("...\\".into(), false));
}

#[test]
fn bad_paths_have_their_status() {
    let bad = [
        "",
        "*",
        "a",
        "/..",
        "/../a",
        "/a/../b",
        "/a/..",
        "/./a",
        "/a/.",
        "/%2e%2E/a",
        "/.%2e",
        "/a%2fb",
        "/%2F",
        "/a%00",
        "/%",
        "/%4",
        "/%zz",
        "/a%4/b",
        "/%%41",
    ];
    for path in bad {
        assert_eq!(Wanted::parse(path), Err(StatusCode::BAD_REQUEST), "{path}");
    }
    for path in ["//", "//a", "/a//b", "/a//"] {
        assert_eq!(Wanted::parse(path), Err(StatusCode::NOT_FOUND), "{path}");
    }
    let longest = format!("/{}", "a".repeat(MAX_PATH - 1));
    assert!(Wanted::parse(&longest).is_ok());
    assert_eq!(Wanted::parse(&(longest + "a")), Err(StatusCode::URI_TOO_LONG));
}

proptest! {
    /// A parsed path has only ordinary components, and parses to itself when it is encoded again.
    #[test]
    fn what_is_parsed_stays_below(path in "/[a./%02eEfF\\\\ü-]{0,30}") {
        if let Ok(wanted) = Wanted::parse(&path) {
            let ordinary = |part| matches!(part, std::path::Component::Normal(_));
            prop_assert!(wanted.is_root() || wanted.path.components().all(ordinary));
            let again = Wanted::parse(&wanted.as_directory()).unwrap();
            prop_assert_eq!(again.path, wanted.path);
        }
    }
}
