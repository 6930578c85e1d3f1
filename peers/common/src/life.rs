//! Lifetime of a peer, which never outlives the process that started it: it exits at the end of stdin and on
//! SIGTERM.

use std::io::Read;
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Returns a receiver that yields once, when SIGTERM arrives or stdin ends.
///
/// Must be called before any other thread starts: SIGTERM is blocked in the calling thread, and threads
/// inherit this setting.
pub fn ending() -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::sync_channel(2);
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_ok() {
        let tell = tell.clone();
        thread::spawn(move || {
            while signals.wait().is_err() {}
            let _ = tell.try_send(());
        });
    }
    thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut ignored = [0; 256];
        while matches!(stdin.read(&mut ignored), Ok(1..)) {}
        let _ = tell.try_send(());
    });
    told
}

/// Prints the line for which a runner waits before it starts clients.
pub fn ready(address: std::net::SocketAddr) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "listening {address}");
    let _ = out.flush();
}
