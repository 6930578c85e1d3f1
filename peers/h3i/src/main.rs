//! Incorrect HTTP/3 input from h3i, an independent implementation, for a server: see `peers/README.md`.
//!
//! Every case has a connection of its own. One line for each case reports whether the server reacted with the
//! error that the RFCs require.
#![forbid(unsafe_code)]

mod case;
mod content;
mod control;
mod message;
mod qpack;
mod request;
mod script;

use std::net::SocketAddr;
use std::process::ExitCode;

use case::Case;

const USAGE: &str = "usage: peer-h3i --connect IP:PORT [--echo] [CASE…]
--echo: the cases for a server that answers POST /echo with the content, instead of those for GET /bytes/1";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let server = match (arguments.next().as_deref(), arguments.next().map(|text| text.parse::<SocketAddr>()))
    {
        (Some("--connect"), Some(Ok(server))) => server,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let (flags, wanted): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.starts_with("--"));
    let cases = match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => for_any_server(),
        ["--echo"] => content::cases(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(unknown) = wanted.iter().find(|name| cases.iter().all(|case| case.name != **name)) {
        eprintln!("no case is called {unknown}");
        return ExitCode::FAILURE;
    }
    let chosen =
        cases.into_iter().filter(|case| wanted.is_empty() || wanted.iter().any(|name| case.name == name));
    let (mut passed, mut failed) = (0, 0);
    for case in chosen {
        let (expected, observed) = (&case.expected, case.run(server));
        if *expected == observed {
            println!("{}: pass {observed}", case.name);
            passed += 1;
        } else {
            println!("{}: FAIL expected {expected} got {observed}", case.name);
            failed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

fn for_any_server() -> Vec<Case> {
    [control::cases(), request::cases(), message::cases(), qpack::cases()].into_iter().flatten().collect()
}
