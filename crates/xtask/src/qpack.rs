//! QPACK interop offline, from file to file: every encoder with every decoder, for several table sizes and
//! blocking settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options for the generated header lists.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Seed of the header lists
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of header lists
    #[arg(long, default_value_t = 400)]
    lists: u64,
}

/// Dynamic table capacities in bytes.
const CAPACITIES: &[&str] = &["0", "256", "4096"];

/// Maximum number of blocked streams, and `1` if the decoder acknowledges each section at once. An encoder
/// without acknowledgments places each section before the instructions that it needs, so decoders must wait.
const BLOCKING: &[(&str, &str)] = &[("0", "1"), ("100", "0")];

/// QPACK encoder and decoder.
struct Coder {
    name: &'static str,
    /// Program and its first arguments.
    command: Vec<PathBuf>,
    /// `true` if the encoder uses a dynamic table.
    dynamic: bool,
}

/// Prints the matrix. Returns `false` if anything failed.
pub(super) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (lists, encoded, decoded) =
        (folder.path().join("lists.qif"), folder.path().join("encoded"), folder.path().join("decoded.qif"));
    let ours = ours(root)?;
    let (seed, count) = (arguments.seed.to_string(), arguments.lists.to_string());
    execute(ours.start("generate").args([&seed, &count]).arg(&lists))?;
    let coders: Vec<Coder> =
        [Ok(ours), ls_qpack(root), quic_go(root)].into_iter().filter_map(present).collect();

    println!(
        "{:>8} {:>7}  {:<10} {:<10} {:>8}  result",
        "capacity", "blocked", "encoder", "decoder", "bytes"
    );
    let mut good = true;
    for (capacity, (blocked, acknowledge), encoder) in cells(&coders) {
        let encoding =
            execute(encoder.start("encode").args([&lists, &encoded]).args([capacity, blocked, acknowledge]));
        let bytes = fs::metadata(&encoded).map_or(0, |file| file.len());
        for decoder in &coders {
            let result = match &encoding {
                Err(why) => Err(why.clone()),
                Ok(()) if encoder.dynamic && !decoder.dynamic && capacity != "0" => {
                    Ok("unsupported: no dynamic table")
                }
                Ok(()) => {
                    execute(decoder.start("decode").args([&encoded, &decoded]).args([capacity, blocked]))
                        .and_then(|()| same(&lists, &decoded))
                        .map(|()| "pass")
                }
            };
            let text = result.clone().map_or_else(|why| format!("FAIL: {why}"), str::to_owned);
            println!(
                "{capacity:>8} {blocked:>7}  {:<10} {:<10} {bytes:>8}  {text}",
                encoder.name, decoder.name
            );
            good &= result.is_ok();
            let _ = fs::remove_file(&decoded);
        }
        let _ = fs::remove_file(&encoded);
    }
    Ok(good)
}

impl Coder {
    /// Returns the coder's command line with `verb` as the next argument.
    fn start(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg(verb);
        command
    }
}

/// Returns all encoders with all settings. An encoder without a dynamic table behaves the same with all
/// settings, so it is listed only once.
fn cells(coders: &[Coder]) -> impl Iterator<Item = (&'static str, (&'static str, &'static str), &Coder)> {
    let settings =
        CAPACITIES.iter().flat_map(|capacity| BLOCKING.iter().map(move |blocking| (*capacity, *blocking)));
    settings.enumerate().flat_map(|(index, (capacity, blocking))| {
        let encoders = coders.iter().filter(move |coder| coder.dynamic || index == 0);
        encoders.map(move |encoder| (capacity, blocking, encoder))
    })
}

/// Returns the coder if it is available; otherwise prints why it is skipped.
fn present(coder: Result<Coder, String>) -> Option<Coder> {
    coder.map_err(|why| eprintln!("qpack: skipped: {why}")).ok()
}

fn ours(root: &Path) -> Result<Coder, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "anabranch-http3", "--example", "qpack_interop"])
        .current_dir(root);
    execute(&mut build)?;
    let target = crate::ours::target(root);
    let program = target.join("debug/examples/qpack_interop");
    Ok(Coder { name: "anabranch", command: vec![program], dynamic: true })
}

/// Returns ls-qpack through its Python package, in a separate virtual environment.
fn ls_qpack(root: &Path) -> Result<Coder, String> {
    let folder = root.join("peers/qpack");
    let python = folder.join(".venv/bin/python");
    let blame = |why| format!("ls-qpack: {why}");
    if !python.is_file() {
        execute(Command::new("python3").args(["-m", "venv"]).arg(folder.join(".venv"))).map_err(blame)?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(folder.join("requirements.txt"));
    execute(&mut install).map_err(blame)?;
    Ok(Coder { name: "ls-qpack", command: vec![python, folder.join("ls_qpack.py")], dynamic: true })
}

fn quic_go(root: &Path) -> Result<Coder, String> {
    let folder = root.join("peers/qpack/quic-go");
    let program = folder.join("peer-qpack-quic-go");
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(".").current_dir(&folder);
    execute(&mut build).map_err(|why| format!("quic-go: {why}"))?;
    Ok(Coder { name: "quic-go", command: vec![program], dynamic: false })
}

/// Runs a command; the error is the last line it printed.
fn execute(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(printed.trim().lines().next_back().map_or_else(|| output.status.to_string(), str::to_owned))
}

fn same(expected: &Path, got: &Path) -> Result<(), String> {
    let read = |path: &Path| fs::read(path).map_err(|error| error.to_string());
    if read(expected)? == read(got)? { Ok(()) } else { Err("other lists than were encoded".to_owned()) }
}
