//! quiche as a guest of the lab. It uses one path, the first of those that the lab names.

mod clock;
mod config;
mod stack;

use std::process::ExitCode;

use quiche::CongestionControlAlgorithm as Algorithm;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let congestion = match &arguments[..] {
        [] => Some(Algorithm::CUBIC),
        [flag, name] if flag == "--congestion" => match name.as_str() {
            "cubic" => Some(Algorithm::CUBIC),
            "reno" => Some(Algorithm::Reno),
            "bbr" => Some(Algorithm::Bbr2Gcongestion),
            _ => None,
        },
        _ => None,
    };
    let Some(congestion) = congestion else {
        eprintln!("use guest-quiche [--congestion cubic|reno|bbr], as a guest of `anabranch lab run`");
        return ExitCode::from(2);
    };
    if !clock::works() {
        eprintln!("quiche reads a clock that this program cannot set");
        return ExitCode::FAILURE;
    }
    anabranch_guest::serve("quiche 0.30.0", |hello| stack::Quiche::new(hello, congestion))
}
