//! A small run of `fleet`: servers behind a load balancer come and go.

use std::process::Command;

use serde_json::Value;

#[test]
fn no_connection_is_lost_but_those_of_the_killed_server() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-bench"));
    command.args(["fleet", "--own-servers", "--servers", "3", "--connections", "40", "--at-once", "10"]);
    let output = command.args(["--json", "-"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!((count("connections"), count("lost")), (40, 0), "{errors}");
    // The answer at another address may be lost; such a connection goes on over its other paths.
    assert!((36..=40).contains(&(count("moved") + count("killed"))), "{result}");
    // The server that was added has clients, too, and those that have moved have opened four paths.
    assert_eq!(count("servers"), 4, "{result}");
    assert!(count("paths") >= 4 * count("moved"), "{result}");
}
