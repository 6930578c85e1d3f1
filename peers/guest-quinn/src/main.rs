//! quinn-proto as a guest of the lab. It uses one path, the first of those that the lab names.

mod flavor;
mod settings;
mod stack;

use std::process::ExitCode;

fn main() -> ExitCode {
    settings::play("quinn-proto 0.11.19")
}
