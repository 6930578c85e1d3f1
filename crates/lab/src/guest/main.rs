//! The library's own stack as a guest of the lab.

use std::process::ExitCode;

use anabranch_lab::design::MAX_PATHS;
use anabranch_lab::guest::own;
use anabranch_transport::{MultipathConfig, Numbering, TransportConfig};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbering = match &arguments[..] {
        [] => Numbering::Multiple,
        [flag, name] if flag == "--numbering" => match name.parse() {
            Ok(numbering) => numbering,
            Err(error) => return usage(&format!("`{name}`: {error}")),
        },
        _ => return usage("unknown arguments"),
    };
    let multipath = MultipathConfig::default().with_max_paths(MAX_PATHS as u32).with_numbering(numbering);
    let transport = TransportConfig::default().with_multipath(multipath);
    own::play(transport)
}

fn usage(what: &str) -> ExitCode {
    eprintln!("{what}: use anabranch-lab-guest [--numbering NAME], as a guest of `anabranch lab run`");
    ExitCode::from(2)
}
