//! The view in a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};

use super::process::{Field, eventually};

/// End of the alternate screen.
const BACK: &str = "\u{1b}[?1049l";

fn mode(terminal: &OwnedFd) -> Termios {
    tcgetattr(terminal).unwrap()
}

#[test]
fn signals_end_the_view_and_give_the_terminal_back() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &["--no-status"]);
    let _client = field.connect(address, &[]);
    for signal in ["-TERM", "-INT"] {
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let before = mode(&pty.slave);
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = field.command(&["status", "--live"]);
        let mut view = command.env("TERM", "xterm").stdin(end()).stdout(end()).spawn().unwrap();
        drop(command);
        let mut master = File::from(pty.master);
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            // Fails with an error when nobody holds the other end any longer.
            let _ = master.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        let is_raw = || !mode(&pty.slave).local_flags.contains(LocalFlags::ICANON);
        eventually("the view", || is_raw().then_some(()));
        let sent = Command::new("kill").args([signal, &view.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = eventually("the end of the view", || view.try_wait().unwrap());
        assert!(status.success(), "{signal}: {status}");
        assert_eq!(mode(&pty.slave), before, "{signal}");
        drop(pty.slave);
        let shown = reading.join().unwrap();
        assert!(shown.contains("connected") && shown.contains(BACK), "{signal}: {shown:?}");
    }
}
