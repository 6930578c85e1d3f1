//! `anabranch proxy hash`: hashes of secrets, for the file with users.

use std::io::Read;

use anabranch::proxy::server::hash_secret;
use clap::Args;

use crate::exit::{self, Exit, Failure, Result, say};

/// Maximum length of standard input, in bytes.
const MAX_INPUT: u64 = 4_096;

/// Hash a secret, which is read from standard input, for the file with users
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Hash {}

pub(crate) fn run(_options: &Hash) -> Result {
    let mut secret = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut secret);
    read.map_err(|error| Failure::io("cannot read standard input", &error))?;
    // The end of the line is not part of the secret.
    if secret.ends_with(b"\n") {
        secret.pop();
    }
    if secret.ends_with(b"\r") {
        secret.pop();
    }
    let refused = |error| Failure::new(Exit::Usage, error).or("write it to standard input");
    say(hash_secret(&secret).map_err(refused)?)
}
