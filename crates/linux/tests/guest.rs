//! Tests of the guest with its kernel. This test program is also the guest's first process: the kernel starts
//! it again.
//!
//! Without a kernel (`anabranch lab linux build`) each test is skipped, and its name is printed.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
#[path = "guest/checks.rs"]
mod checks;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [word, order, ..] if word == "guest" => {
            let fault = anabranch_linux::guest::run(order.as_ref());
            println!("{fault:?}");
        }
        [word, command @ ..] if word == "enter" => {
            let fault = anabranch_linux::host::enter(command);
            println!("{fault}");
        }
        _ => checks::all(&arguments),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: the guest runs on Linux alone");
}
