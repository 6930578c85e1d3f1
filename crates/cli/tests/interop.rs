//! The endpoint of the interop runner, as the runner sees it: environment, folders, exit statuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::TempDir;

/// Maximum time that a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// Folders of both endpoints.
struct Field(TempDir);

impl Field {
    fn new(files: &[(&str, usize)]) -> Self {
        let field = Self(tempfile::tempdir().unwrap());
        for folder in ["www", "certs", "downloads", "server", "client"] {
            fs::create_dir(field.path(folder)).unwrap();
        }
        for (name, size) in files {
            let bytes: Vec<u8> = (0..*size).map(|at| (at * 31 + at / 251 + name.len()) as u8).collect();
            fs::write(field.path("www").join(name), bytes).unwrap();
        }
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["server".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(field.path("certs").join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(field.path("certs").join("priv.key"), key.serialize_pem()).unwrap();
        field
    }

    fn path(&self, folder: &str) -> PathBuf {
        self.0.path().join(folder)
    }

    fn endpoint(&self, role: &str, case: &str) -> Command {
        let mut command =
            Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/run_endpoint.sh"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("ANABRANCH_BIN", env!("CARGO_BIN_EXE_anabranch"))
            .env("ANABRANCH_LOGS", self.path(role))
            .env("ANABRANCH_WWW", self.path("www"))
            .env("ANABRANCH_CERTS", self.path("certs"))
            .env("ANABRANCH_DOWNLOADS", self.path("downloads"))
            .env("ANABRANCH_PORT", "0")
            .env("SSLKEYLOGFILE", self.path(role).join("keys.log"))
            .env("QLOGDIR", self.path(role).join("qlog"))
            .env("ROLE", role)
            .env("TESTCASE", case)
            .current_dir(self.path(role))
            .stdin(Stdio::null());
        command
    }

    fn log(&self, role: &str) -> String {
        fs::read_to_string(self.path(role).join(format!("{role}.log"))).unwrap_or_default()
    }

    /// Starts a server and returns its port.
    fn serve(&self, case: &str) -> (Reaped, u16) {
        let child = Reaped(self.endpoint("server", case).spawn().unwrap());
        let deadline = Instant::now() + START;
        loop {
            let log = self.log("server");
            let said =
                log.lines().filter(|_| log.ends_with('\n')).find_map(|line| line.strip_prefix("listening "));
            if let Some(address) = said {
                return (child, address.rsplit(':').next().unwrap().parse().unwrap());
            }
            assert!(Instant::now() < deadline, "the server does not listen: {log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn fetch(&self, case: &str, port: u16, files: &[&str]) -> Output {
        let requests: Vec<_> = files.iter().map(|name| format!("https://127.0.0.1:{port}/{name}")).collect();
        self.endpoint("client", case).env("REQUESTS", requests.join(" ")).output().unwrap()
    }
}

/// Child process that is killed when dropped.
struct Reaped(Child);

impl Reaped {
    /// Terminates the process, as the end of a container does.
    fn terminate(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn unknown_cases_end_with_127_in_both_roles_before_anything_starts() {
    let field = Field::new(&[]);
    for role in ["server", "client"] {
        let output =
            field.endpoint(role, "unheard").env("REQUESTS", "https://127.0.0.1:1/x").output().unwrap();
        assert_eq!(output.status.code(), Some(127), "{role}");
        assert_eq!(field.log(role), "");
        assert!(!field.path(role).join("qlog").exists());
    }
}

#[test]
fn what_is_not_there_is_a_failure() {
    let field = Field::new(&[("here", 10)]);
    assert_eq!(field.endpoint("client", "transfer").output().unwrap().status.code(), Some(1));
    assert_eq!(
        field.endpoint("client", "transfer").env("ROLE", "neither").output().unwrap().status.code(),
        Some(1)
    );
    let (server, port) = field.serve("transfer");
    assert_eq!(field.fetch("transfer", port, &["here", "missing"]).status.code(), Some(1));
    assert_eq!(server.terminate(), Some(0));
    fs::remove_file(field.path("certs").join("priv.key")).unwrap();
    assert_eq!(field.endpoint("server", "transfer").output().unwrap().status.code(), Some(1));
}

#[test]
fn cases_move_files_whole_and_write_nowhere_else() {
    let files = [("first", 5_000), ("second", 700_000), ("third", 40)];
    let names = files.map(|(name, _)| name);
    for case in [
        "handshake",
        "transfer",
        "multiconnect",
        "chacha20",
        "keyupdate",
        "retry",
        "resumption",
        "zerortt",
        "v2",
        "ecn",
        "http3",
    ] {
        let field = Field::new(&files);
        let (server, port) = field.serve(case);
        let output = field.fetch(case, port, &names);
        assert_eq!(output.status.code(), Some(0), "{case}: {}", field.log("client"));
        assert_eq!(server.terminate(), Some(0), "{case}");
        for name in names {
            let (there, here) = (field.path("www").join(name), field.path("downloads").join(name));
            assert!(fs::read(there).unwrap() == fs::read(here).unwrap(), "{case}: {name}");
        }
        assert_eq!(fs::read_dir(field.path("downloads")).unwrap().count(), names.len(), "{case}");
        for role in ["server", "client"] {
            let written = fs::read_dir(field.path(role)).unwrap().map(|entry| entry.unwrap().file_name());
            let written: BTreeSet<_> = written.map(|name| name.into_string().unwrap()).collect();
            let log = format!("{role}.log");
            assert_eq!(written, ["keys.log", "qlog", &log].map(str::to_owned).into(), "{case}");
        }
    }
}
