//! Authentication of users by client certificates.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::process::{Field, eventually, stderr};
use super::{socks, targets};

/// An authority that signs certificates of clients.
type Authority = CertifiedIssuer<'static, KeyPair>;

/// Creates an authority, and writes its certificate to a file.
fn authority(field: &Field, file: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, file);
    let made = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(field.path(file), made.pem()).unwrap();
    made
}

/// Writes the certificate of a client, and its key.
fn client(field: &Field, name: &str, authority: &Authority) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let made = params.signed_by(&key, authority).unwrap();
    fs::write(field.path(&format!("{name}.pem")), made.pem()).unwrap();
    fs::write(field.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// Returns whether an echoing target sends a byte back through a SOCKS5 port.
fn echoes(port: SocketAddr, target: SocketAddr) -> bool {
    let Ok(mut stream) = socks::connect(port, "127.0.0.1", target.port()) else { return false };
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).is_ok()
}

#[test]
fn certificates_are_credentials() {
    let (field, echo) = (Field::new(), targets::echo());
    let (own, foreign) = (authority(&field, "ca.pem"), authority(&field, "foreign.pem"));
    client(&field, "laptop", &own);
    client(&field, "unknown", &own);
    client(&field, "stranger", &foreign);
    let users = fs::read_to_string(field.path("users.toml")).unwrap();
    let bob = "[[user]]\nname = \"bob\"\ncertificate = \"CN=laptop\"\n";
    fs::write(field.path("users.toml"), format!("{users}{bob}")).unwrap();
    let refused = field.run(&["proxy", "serve", "--listen", "127.0.0.1:0", "--users", "users.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--client-ca"), "{}", stderr(&refused));

    let (proxy, address) = field.proxy("127.0.0.1:0", &["--client-ca", "ca.pem"]);
    let url = format!("https://localhost:{}", address.port());
    let args = |pair: Option<(&str, &str)>, more: &[&str]| -> Vec<String> {
        let common = ["proxy", "connect", &url, "--ca", "cert.pem", "--path", "lo", "--socks", "127.0.0.1:0"];
        let mut args: Vec<String> = common.iter().chain(more).map(|arg| (*arg).to_owned()).collect();
        if let Some((cert, key)) = pair {
            let files = ["--client-cert", &format!("{cert}.pem"), "--client-key", &format!("{key}.key")];
            args.extend(files.map(str::to_owned));
        }
        args
    };
    let start = |pair, more: &[&str]| {
        let args = args(pair, more);
        let mut process = field.start("client.log", &args.iter().map(String::as_str).collect::<Vec<_>>());
        let port: SocketAddr = process.said("listening socks ").parse().unwrap();
        (process, port)
    };
    let ended = |pair, more: &[&str], status: i32| {
        let args = args(pair, more);
        let output = field.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let said = stderr(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{said}");
        said
    };

    // A certificate of a user needs no other credentials.
    let (known, port) = start(Some(("laptop", "laptop")), &[]);
    assert!(echoes(port, echo), "{}", known.log());
    eventually("the user in the log", || proxy.log().contains(" bob ").then_some(()));
    // A certificate of no user needs credentials as well.
    ended(Some(("unknown", "unknown")), &[], 11);
    let (with_token, port) = start(Some(("unknown", "unknown")), &["--token-file", "token"]);
    assert!(echoes(port, echo), "{}", with_token.log());

    // Without a certificate, and with one of another authority, both ends print the reason.
    let said = ended(None, &["--token-file", "token"], 5);
    assert!(
        said.contains("the proxy demands a client certificate") && said.contains("--client-cert"),
        "{said}"
    );
    eventually("a line about a missing certificate", || {
        proxy.log().contains("no acceptable client certificate: ").then_some(())
    });
    let said = ended(Some(("stranger", "stranger")), &["--token-file", "token"], 5);
    assert!(said.contains("the proxy does not accept the client's certificate"), "{said}");
    eventually("a line about a wrong certificate", || proxy.log().contains("UnknownIssuer").then_some(()));
    // The client itself detects that the key belongs to another certificate.
    ended(Some(("laptop", "stranger")), &[], 2);
}

#[test]
fn a_proxy_that_no_longer_accepts_the_certificate_is_not_asked_all_the_time() {
    let field = Field::new();
    let (own, _) = (authority(&field, "ca.pem"), authority(&field, "foreign.pem"));
    client(&field, "laptop", &own);
    let (mut proxy, address) = field.proxy("127.0.0.1:0", &["--client-ca", "ca.pem"]);
    let more = ["--client-cert", "laptop.pem", "--client-key", "laptop.key", "--idle-ms", "2000"];
    let client = field.connect(address, &more);
    proxy.kill();
    let (again, _) = field.proxy(&address.to_string(), &["--client-ca", "foreign.pem"]);
    let refusals = || again.log().matches("no acceptable client certificate").count();
    eventually("a refusal", || (refusals() > 0).then_some(()));
    // The pauses grow: 0.25, 0.5, 1 and 2 seconds.
    thread::sleep(Duration::from_secs(3));
    assert!((2..=6).contains(&refusals()), "{}", again.log());
    assert!(client.process.log().contains("is lost"), "{}", client.process.log());
}
