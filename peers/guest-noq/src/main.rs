//! noq-proto, a fork of quinn-proto with several paths (RFC 10069), as a guest of the lab. It shares the files
//! of quinn's guest but for what the two call by other names.

mod flavor;
#[path = "../../guest-quinn/src/settings.rs"]
mod settings;
#[path = "../../guest-quinn/src/stack.rs"]
mod stack;

use std::process::ExitCode;

fn main() -> ExitCode {
    settings::play("noq-proto 1.4.0")
}
