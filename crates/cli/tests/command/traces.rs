//! Traces of every kind, read by the qlog parser of another project.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use qlog::reader::{Event, QlogSeqReader};

use super::{Server, anabranch, json, status, stderr};

/// Event names that the parser does not support: events of extensions, and events that its draft names
/// differently.
const UNKNOWN: [&str; 11] = [
    "ack_frequency",
    "immediate_ack",
    "path_ack",
    "path_abandon",
    "path_status",
    "path_state_updated",
    "paths_blocked",
    "max_path_id",
    "path_new_connection_id",
    "crypto_error_0x",
    "key_discarded",
];

/// Reads every trace of a directory completely. Returns the names of the events that the parser supports.
fn read_all(dir: &Path) -> Vec<String> {
    let mut understood = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut records = text.lines().map(|line| line.trim_start_matches('\u{1e}'));
        let header: serde_json::Value = serde_json::from_str(records.next().unwrap()).unwrap();
        assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential", "{}", path.display());
        let mut reader = QlogSeqReader::new(Box::new(BufReader::new(File::open(&path).unwrap()))).unwrap();
        for record in records {
            let parsed: serde_json::Value = serde_json::from_str(record).unwrap();
            match reader.next() {
                Some(Event::Qlog(event)) => {
                    assert_eq!(event.time, parsed["time"].as_f64().unwrap(), "{record}");
                    understood.push(parsed["name"].as_str().unwrap().to_owned());
                }
                _ => assert!(UNKNOWN.iter().any(|name| record.contains(name)), "not understood: {record}"),
            }
        }
        assert!(reader.next().is_none(), "{}", path.display());
    }
    understood
}

/// Runs the command with traces in a separate directory. Returns its status and the names of the events that
/// the parser supports.
fn traced(dir: &Path, args: &[&str]) -> (i32, Vec<String>) {
    let traces = dir.join(format!("traces-{}", fs::read_dir(dir).unwrap().count()));
    fs::create_dir(&traces).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.args(args).current_dir(dir).env("QLOGDIR", &traces).output().unwrap();
    (status(&output), read_all(&traces))
}

#[test]
fn traces_of_several_paths_in_each_numbering_and_wire_are_read() {
    for more in [&["--numbering", "multiple"][..], &["--numbering", "single"], &["--wire", "reverso"]] {
        let here = tempfile::tempdir().unwrap();
        let paths =
            ["demo", "--size", "1", "--paths", "20mbit/20ms,10mbit/40ms/1%", "--json", "-", "--qlog", "q"];
        let output = anabranch(here.path(), &[&paths[..], more].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert!(!json(&output).is_empty());
        let events = read_all(&here.path().join("q"));
        for name in
            ["quic:packet_sent", "quic:packet_received", "quic:recovery_metrics_updated", "quic:packet_lost"]
        {
            assert!(events.iter().any(|event| event == name), "{more:?}: {name}");
        }
    }
}

#[test]
fn traces_of_a_retry_a_refusal_and_a_silent_server_are_read() {
    let server = Server::start(&["perf", "server"], &["--retry"]);
    let (dir, url, ca) = (server.dir.path(), server.url("/small"), server.ca());
    let (status, events) = traced(dir, &["get", "--hq", "--ca", &ca, "-o", "copy", &url]);
    assert_eq!((status, fs::read_to_string(dir.join("copy")).unwrap().as_str()), (0, "small file"));
    assert!(events.iter().any(|name| name == "quic:connection_closed"), "{events:?}");
    let (status, events) = traced(dir, &["get", "--hq", "-o", "copy", &url]);
    assert_eq!(status, 5, "the certificate is not trusted");
    assert!(events.iter().any(|name| name == "quic:packet_received"), "{events:?}");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", silent.local_addr().unwrap().port());
    let (status, events) =
        traced(dir, &["get", "--hq", "--timeout", "1", "--retry", "0", "-o", "copy", &url]);
    assert_eq!(status, 7, "nobody answers");
    assert!(events.iter().any(|name| name == "quic:packet_sent"), "{events:?}");
}
