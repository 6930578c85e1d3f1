//! Options of `get` that change the request.

use super::*;

#[test]
fn redirections_are_followed_on_request() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    assert_eq!(good(&site, here.path(), &[&site.url("/moved"), "-L", "-o", "-"]), "small file");
    good(&site, here.path(), &[&site.url("/moved"), "-L"]);
    assert_eq!(names(here.path()), ["moved"], "the name is that of the URL that was given");
    // After status 302 a POST becomes a GET; after 307 it does not (RFC 9110 §15.4).
    let post = |path| good(&site, here.path(), &[&site.url(path), "-L", "-d", "data", "-o", "-"]);
    let told = post("/see-told");
    assert!(told.starts_with("GET\n") && told.ends_with("\n0 bytes"), "{told}");
    assert!(!told.contains("content-"), "{told}");
    assert!(post("/same-told").ends_with("data\n4 bytes"));
}

#[test]
fn secrets_are_not_told_to_another_server() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let other = Site::start();
    std::fs::write(
        here.path().join("both.pem"),
        [site.ca(), other.ca()].map(|file| std::fs::read_to_string(file).unwrap()).concat(),
    )
    .unwrap();
    let ask = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(here.path()).args(["get", "--ca", "both.pem", "-L", "-o", "-", &site.url(path)]);
        command.args(["-H", "Authorization: secret", "-H", "Cookie: secret", "-H", "X-Other: known"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(ask("/told").matches("secret").count(), 2);
    assert_eq!(ask("/see-told").matches("secret").count(), 2);
    let told = ask(&format!("/away/{}", other.address.port()));
    assert!(told.contains("x-other: known") && !told.contains("secret"), "{told}");
    assert_eq!(other.connections().len(), 1);
}

#[test]
fn methods_fields_and_content_are_sent() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let told = |args: &[&str]| good(&site, here.path(), &[&[&site.url("/told"), "-o", "-"], args].concat());
    let plain = told(&[]);
    assert!(plain.starts_with("GET\n") && plain.contains("user-agent: anabranch/"), "{plain}");
    let fields = told(&["-H", "a:1", "-H", "a: 2", "-H", "User-Agent: other", "-X", "DELETE"]);
    assert!(fields.starts_with("DELETE\n") && fields.contains("a: 1\na: 2\n"), "{fields}");
    assert!(fields.contains("user-agent: other") && !fields.contains("anabranch"), "{fields}");
    let post = told(&["-d", "a=b"]);
    assert!(post.starts_with("POST\n") && post.ends_with("a=b\n3 bytes"), "{post}");
    assert!(post.contains("content-type: application/x-www-form-urlencoded"), "{post}");
    std::fs::write(here.path().join("upload"), pattern(20_000_000)).unwrap();
    let put = told(&["-X", "PUT", "-d", "@upload", "-H", "content-type: image/png"]);
    assert!(put.starts_with("PUT\n") && put.ends_with("\n20000000 bytes"), "{put}");
    assert!(put.contains("content-length: 20000000") && put.contains("content-type: image/png"), "{put}");
}

#[test]
fn heads_are_shown() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let head = good(&site, here.path(), &["-I", &site.url("/told")]);
    assert!(head.starts_with("HTTP/3 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("x-field: of the response\r\n"), "{head}");
    let both = good(&site, here.path(), &["-i", "-o", "-", &site.url("/small")]);
    assert!(both.starts_with("HTTP/3 200 OK\r\n") && both.ends_with("\r\n\r\nsmall file"), "{both}");
    assert_eq!(names(here.path()), [""; 0]);
}

#[test]
fn parts_can_be_had() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    good(&site, here.path(), &[&site.url("/large"), "-r", "100-299", "-o", "part"]);
    assert_eq!(std::fs::read(here.path().join("part")).unwrap(), pattern(LARGE)[100..300]);
}

#[test]
fn a_file_that_is_there_in_part_gets_the_rest() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let file = here.path().join("large");
    // The file is missing, then partial, then complete.
    for (begun, fetched) in [(None, LARGE), (Some(1_234_567), LARGE - 1_234_567), (Some(LARGE), 0)] {
        if let Some(len) = begun {
            std::fs::write(&file, &pattern(LARGE)[..len]).unwrap();
        }
        let args = [&site.url("/large"), "--continue", "-o", "large", "--json", "-"];
        let fact: Value = serde_json::from_str(&good(&site, here.path(), &args)).unwrap();
        assert_eq!((&fact["bytes"], &fact["sha256"]), (&fetched.into(), &sha256(&pattern(LARGE)).into()));
        assert!(std::fs::read(&file).unwrap() == pattern(LARGE), "{begun:?}");
    }
    // A partial file with other content, short or long, is unchanged.
    for len in [1, 1_000, 5_000_000.min(LARGE - 1)] {
        let other = vec![7; len];
        std::fs::write(&file, &other).unwrap();
        let output = get(&site, here.path(), &[&site.url("/large"), "-C"]);
        assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
        assert!(stderr(&output).contains("the rest does not fit what is there"), "{}", stderr(&output));
        assert!(std::fs::read(&file).unwrap() == other, "{len}");
    }
    // A file that is longer than the server's is unchanged, too.
    std::fs::write(&file, vec![0; LARGE + 10_000]).unwrap();
    let output = get(&site, here.path(), &[&site.url("/large"), "-C"]);
    assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
    // The server does not support ranges.
    std::fs::write(here.path().join("whole"), "begun").unwrap();
    let output = get(&site, here.path(), &[&site.url("/whole"), "-C"]);
    assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
    assert_eq!(std::fs::read(here.path().join("whole")).unwrap(), b"begun");
    // Bytes received before a failure are kept.
    let output = get(&site, here.path(), &[&site.url("/cut"), "-C"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    let kept = std::fs::read(here.path().join("cut")).unwrap();
    assert!(!kept.is_empty() && pattern(LARGE / 2).starts_with(&kept), "{} bytes", kept.len());
}

#[test]
fn keys_are_updated_on_request() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let updates = |more: &[&str]| {
        let facts = good(&site, here.path(), &[&[&site.url("/whole"), "--json", "-"], more].concat());
        let facts: Value = serde_json::from_str(&facts).unwrap();
        facts["key_updates"].as_u64().unwrap()
    };
    assert_eq!(updates(&[]), 0);
    assert!(updates(&["--key-update", "5"]) > 0);
}
