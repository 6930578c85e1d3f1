//! noq-proto, a fork of quinn-proto with several paths (RFC 10069), as a guest of the lab. This program uses
//! the files of quinn's guest, except `flavor`, which contains the calls that differ between the two stacks.

mod flavor;
#[path = "../../guest-quinn/src/settings.rs"]
mod settings;
#[path = "../../guest-quinn/src/stack.rs"]
mod stack;

use std::process::ExitCode;

fn main() -> ExitCode {
    settings::play("noq-proto 1.4.0")
}
