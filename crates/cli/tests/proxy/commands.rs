//! Messages and exit statuses of the commands.

use std::process::Output;

use super::site::{Field, OPEN, anabranch, hash};

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs `anabranch proxy check` on a file with this content.
fn check(content: &str) -> Output {
    let field = Field::new();
    std::fs::write(field.path("proxy.toml"), content).unwrap();
    anabranch(&["proxy", "check"]).arg(field.path("proxy.toml")).output().unwrap()
}

/// Runs a server that ends at once. Returns its exit status and its log.
fn refused(field: &Field, args: &[&str]) -> (Option<i32>, String) {
    let status = field.serve(args).status().unwrap();
    (status.code(), std::fs::read_to_string(field.path("log")).unwrap())
}

#[test]
fn secrets_are_hashed_from_standard_input() {
    let (one, other) = (hash("tea\n"), hash("tea"));
    assert!(one.status.success() && other.status.success());
    let text = String::from_utf8(one.stdout.clone()).unwrap();
    assert!(text.starts_with("$argon2id$v=19$") && text.lines().count() == 1, "{text}");
    assert_ne!(one.stdout, other.stdout, "each has a salt of its own");
    for bad in ["", "\n", &"x".repeat(5_000)] {
        let output = hash(bad);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
    let in_arguments = anabranch(&["proxy", "hash", "tea"]).output().unwrap();
    assert_eq!(in_arguments.status.code(), Some(2), "a secret is no argument");
}

#[test]
fn check_names_files_and_lines() {
    let good = check(
        "users = \"users.toml\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n[access]\nallow = [\"10.0.0.0/8\"]\n",
    );
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(String::from_utf8(good.stdout).unwrap().ends_with("good, with 1 user\n"));
    for (content, expected) in [
        ("\nlisen = []\n", "proxy.toml:2: unknown field `lisen`"),
        ("users = [\n", "proxy.toml:"),
        ("[access]\nallow = [\"10.0.0.0/8\",\n\"10.0.0.1/8\"]\n", "proxy.toml:3: '10.0.0.1/8' is no rule"),
        ("users = \"nowhere.toml\"\n", "nowhere.toml: No such file"),
        ("cert = \"users.toml\"\nkey = \"key.pem\"\n", "users.toml"),
    ] {
        let output = check(content);
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(stderr(&output).contains(expected), "{content}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{content}");
    }
    let two = check("listen = [\"x y\"]\n[limits]\nudp_idle = 0.0\n");
    assert!(
        stderr(&two).contains("proxy.toml:1: ") && stderr(&two).contains("proxy.toml:3: "),
        "{}",
        stderr(&two)
    );
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let field = Field::new();
    let (status, said) = refused(&field, &["--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("--users") && said.lines().count() == 1, "{said}");

    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    let args: Vec<_> =
        OPEN.iter().map(|arg| if *arg == "127.0.0.1:0" { place.as_str() } else { arg }).collect();
    let (status, said) = refused(&field, &args);
    assert_eq!((status, said.lines().count()), (Some(9), 1), "{said}");

    std::fs::write(field.path("users.toml"), "[[user]]\nname = \"a\"\nsecret = \"tea\"\n").unwrap();
    let (status, said) = refused(&field, &OPEN);
    assert_eq!(status, Some(2));
    assert!(said.contains("users.toml:3: the secret of 'a' is not an argon2 hash"), "{said}");
    assert!(!said.contains("tea"), "{said}");

    std::fs::write(field.path("p.toml"), "users = \"users.toml\"\ndrian = 3\n").unwrap();
    let (status, said) = refused(&field, &["--config", "p.toml"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("p.toml:2: unknown field `drian`"), "{said}");
    let (status, _) = refused(&field, &["--allow", "10.0.0.1/8"]);
    assert_eq!(status, Some(2));
}
