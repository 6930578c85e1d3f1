//! Attacks of docs/threats.md in full, by the tests that run a tenth of them, and the table of what they cost, docs/attacks.md.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

/// Line of docs/attacks.md after which the table is.
const MARK: &str = "<!-- Written by `cargo xtask attacks --write` from here on. -->";
/// Beginning of a test's line with a row of the table. The test's name may be before it.
const ROW: &str = "attack | ";
/// Header of the table.
const HEADER: &str = "| Row | Attack | Victim | Version | Numbering | Packets | Bytes | At most | Work | At most | Latency | Ends with |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Arguments of `cargo test` for each part, and whether the part runs over VReverso.
const PARTS: &[(&[&str], bool)] = &[
    (&["-p", "anabranch-transport", "--lib", "tests::oracle::"], false),
    (&["-p", "anabranch-transport", "--lib", "tests::oracle::"], true),
    (&["-p", "anabranch-http3", "--test", "session", "oracle::"], false),
    // Rows with a scale whose tests are elsewhere.
    (&["-p", "anabranch-transport", "--lib", "row_m5_opening"], false),
    (&["-p", "anabranch-transport", "--lib", "row_m5_opening"], true),
    (&["-p", "anabranch-transport", "--lib", "row_18_"], false),
    (&["-p", "anabranch-transport", "--lib", "row_m4_"], false),
    // Processes.
    (&["-p", "anabranch-cli", "--test", "serve", "slow::"], false),
];

/// Options of `cargo xtask attacks`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Share of each attack that runs, in percent
    #[arg(long, default_value_t = 100)]
    share: u32,
    /// Write the table into docs/attacks.md
    #[arg(long)]
    write: bool,
}

/// Runs all attacks. Returns whether each kept its limits.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let (mut table, mut passed) = (HEADER.to_owned(), true);
    for (part, over_reverso) in PARTS {
        passed &= attack(root, part, *over_reverso, arguments.share, &mut table)?;
    }
    if arguments.write {
        write(root, arguments.share, &table)?;
    }
    Ok(passed)
}

/// Runs a part, prints what it prints, and adds its rows to `table`. Returns whether its tests passed.
fn attack(
    root: &Path,
    part: &[&str],
    over_reverso: bool,
    share: u32,
    table: &mut String,
) -> Result<bool, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut test = Command::new(cargo);
    test.args(["test", "--release"]).args(part).args(["--", "--nocapture", "--test-threads", "1"]);
    test.env("ANABRANCH_ATTACKS", share.to_string()).current_dir(root).stdout(Stdio::piped());
    if over_reverso {
        test.env("ANABRANCH_TEST_REVERSO", "1");
    }
    let mut test = test.spawn().map_err(|error| format!("cargo: {error}"))?;
    let Some(output) = test.stdout.take() else { return Err("no output".to_owned()) };
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        println!("{line}");
        if let Some((_, row)) = line.split_once(ROW) {
            table.push_str("| ");
            table.push_str(row.trim_end());
            table.push('\n');
        }
    }
    let status = test.wait().map_err(|error| error.to_string())?;
    Ok(status.success())
}

/// Writes the table and the commit that it is of.
fn write(root: &Path, share: u32, table: &str) -> Result<(), String> {
    let path = root.join("docs/attacks.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (head, _) = text.split_once(MARK).ok_or_else(|| format!("{}: no line `{MARK}`", path.display()))?;
    let commit = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).current_dir(root).output();
    let commit = commit.map_err(|error| format!("git: {error}"))?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    let text = format!("{head}{MARK}\n\n{share} % of each attack, commit {commit}.\n\n{table}");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
