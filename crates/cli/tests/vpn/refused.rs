//! Reasons why a VPN does not start.

use std::process::{Command, Output};

use super::spaces::Spaces;

/// Returns the exit status of a command, and the only line that it printed on standard error.
fn line(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    (output.status.code(), said)
}

#[test]
fn each_obstacle_has_one_line_and_a_status() {
    let Some(spaces) = Spaces::make("each_obstacle_has_one_line_and_a_status") else { return };
    let before = spaces.situation();
    let mut proxy = spaces.proxy();
    let mut vpn = spaces.connect(&["--dns", "10.70.0.2"]);
    let (status, said) = line(&spaces.run("c", &spaces.vpn(&[])));
    assert!(
        status == Some(16) && said.contains("another VPN runs on this host (process "),
        "{status:?} {said}"
    );
    let (status, said) = line(&spaces.run("c", &["vpn", "clean"]));
    assert!(status == Some(16) && said.contains("another VPN runs"), "{status:?} {said}");
    assert!(vpn.terminate().success());
    proxy.kill();

    let (status, said) = line(&spaces.run("c", &spaces.vpn(&["--timeout", "1"])));
    assert!(matches!(status, Some(7 | 8)), "{status:?} {said}");
    let (status, said) = line(&spaces.run("c", &spaces.vpn(&["--device", "a/b"])));
    assert!(status == Some(2) && said.contains("no name of a device"), "{status:?} {said}");
    assert_eq!(spaces.situation(), before);
    assert!(!spaces.path("run").exists());
}

#[test]
fn a_process_without_rights_is_told_so() {
    let Some(spaces) = Spaces::make("a_process_without_rights_is_told_so") else { return };
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin", "ip", "netns", "exec", &spaces.space("c")]);
    // `ip netns exec` itself does not need CAP_NET_ADMIN.
    command.arg(env!("CARGO_BIN_EXE_anabranch")).args(spaces.vpn(&[]));
    command.current_dir(spaces.path("")).env("RUNTIME_DIRECTORY", spaces.path("run"));
    let Ok(output) = command.output() else {
        eprintln!("skipped: a_process_without_rights_is_told_so: setpriv is not installed");
        return;
    };
    let (status, said) = line(&output);
    assert!(status == Some(14) && said.contains("CAP_NET_ADMIN"), "{status:?} {said}");
    assert!(!spaces.path("run").exists());
}

#[test]
fn a_proxy_without_pools_carries_no_vpn() {
    let Some(spaces) = Spaces::make("a_proxy_without_pools_carries_no_vpn") else { return };
    let args = "proxy serve --listen 0.0.0.0:4433 --cert cert.pem --key key.pem --users users.toml";
    let mut proxy = spaces.start("s", "proxy.log", &args.split(' ').collect::<Vec<_>>());
    proxy.said("listening ");
    let (status, said) = line(&spaces.run("c", &spaces.vpn(&[])));
    assert!(status == Some(6) && said.contains("--vpn-pool"), "{status:?} {said}");
}
