//! quinn-proto as a guest of the lab: one path, the first one it is told.

mod flavor;
mod settings;
mod stack;

use std::process::ExitCode;

fn main() -> ExitCode {
    settings::play("quinn-proto 0.11.19")
}
