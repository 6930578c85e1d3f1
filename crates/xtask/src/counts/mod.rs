//! Instructions of the workloads in `crates/workloads`, counted by callgrind, in comparison with the values in the repository.

mod callgrind;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::values::{Counted, Values};
use crate::ours;

/// File with the values.
const VALUES: &str = "crates/workloads/counts.toml";
/// Maximum growth, as a share of the value in the repository.
const MAX_GROWTH: f64 = 0.03;
/// Number of functions that are named when a workload has grown.
const NAMED: usize = 5;

/// Options of `cargo xtask counts`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Workloads to count, or all
    #[arg(value_name = "WORKLOAD")]
    only: Vec<String>,
    /// Write the values into the repository instead of comparing with them
    #[arg(long)]
    write: bool,
    /// Print this many functions of each workload, those with most instructions first
    #[arg(long, value_name = "N", default_value_t = 0)]
    top: usize,
}

/// Workload, as the program lists it.
struct Workload {
    name: String,
    operation: String,
    /// Pattern of the functions that are counted with all that they call.
    counted: String,
}

/// Builds, runs and compares the workloads. Returns whether none has grown by more than [`MAX_GROWTH`].
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let path = root.join(VALUES);
    let made_by = match makers(root) {
        Ok(made_by) => made_by,
        Err(why) => {
            println!("skipped: counts: {why}");
            return Ok(true);
        }
    };
    let mut values = if arguments.write && !path.exists() { Values::default() } else { Values::read(&path)? };
    let is_other = values.made_by != made_by;
    if is_other && !arguments.write {
        println!(
            "skipped: counts: {VALUES} is by {}, and here is {}",
            values.made_by.join(", "),
            made_by.join(", ")
        );
        return Ok(true);
    }
    if is_other && !arguments.only.is_empty() {
        return Err(format!("{VALUES} is by {}: write all of it", values.made_by.join(", ")));
    }
    values.made_by = made_by;
    let program = build(root)?;
    let all = list(&program)?;
    if let Some(unknown) =
        arguments.only.iter().find(|name| all.iter().all(|workload| workload.name != **name))
    {
        let names: Vec<_> = all.iter().map(|workload| workload.name.as_str()).collect();
        return Err(format!("there is no workload {unknown}: {}", names.join(", ")));
    }
    let mut passed = true;
    for workload in all.iter().filter(|one| arguments.only.is_empty() || arguments.only.contains(&one.name)) {
        let counted = count(&program, workload)?;
        passed &= compare(workload, &counted, values.workloads.get(&workload.name), arguments.write);
        counted.largest(arguments.top).for_each(|(function, value)| println!("  {value:>10.1} {function}"));
        if arguments.write {
            values.workloads.insert(workload.name.clone(), counted.rounded());
        }
    }
    if arguments.write {
        values.workloads.retain(|name, _| all.iter().any(|workload| workload.name == *name));
        values.write(&path)?;
    }
    Ok(passed || arguments.write)
}

/// Builds the program with the workloads. Returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--locked", "--profile", "counted", "--package", "anabranch-workloads"]);
    match build.current_dir(root).status() {
        Ok(status) if status.success() => Ok(ours::target(root).join("counted/anabranch-counted")),
        Ok(_) => Err("the workloads cannot be built".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Returns the versions of the programs that make the instructions and count them: compilers, the C library, and valgrind. Fails if one
/// is missing.
fn makers(root: &Path) -> Result<Vec<String>, String> {
    let said = |program: &str, argument: &str| {
        // rust-toolchain.toml holds in the project's folder.
        let output = Command::new(program).arg(argument).current_dir(root).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(format!("{program}: {}", output.status)) }
    };
    let first = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
    let rustc = said("rustc", "-vV")?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    Ok(vec![
        format!("{} for {host}", rustc.lines().next().unwrap_or_default()),
        first(said("cc", "--version")?),
        // Other systems than Linux with glibc have no such name.
        said("getconf", "GNU_LIBC_VERSION").map_or_else(|_| "another C library".to_owned(), first),
        first(said("valgrind", "--version")?),
        processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
    ])
}

/// Returns what decides which of their implementations the libraries of C choose: the processor's vendor, and some of its features.
fn processor(description: &str) -> String {
    let of = |key: &str| {
        let line =
            description.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    };
    let features =
        of("flags").split_whitespace().filter(|flag| ["avx", "avx2", "bmi2", "adx"].contains(flag));
    std::iter::once(of("vendor_id")).chain(features).collect::<Vec<_>>().join(" ")
}

/// Returns the workloads of the program.
fn list(program: &Path) -> Result<Vec<Workload>, String> {
    let output = Command::new(program).output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", program.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let workload = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        Some(Workload { name: columns.next()?, operation: columns.next()?, counted: columns.next()? })
    };
    text.lines().map(|line| workload(line).ok_or_else(|| format!("no workload: {line}"))).collect()
}

/// Runs a workload below callgrind. Returns the instructions of an operation.
fn count(program: &Path, workload: &Workload) -> Result<Counted, String> {
    let (operations, functions) = callgrind::run(program, &workload.name, &workload.counted)?;
    let per_operation = |instructions: u64| instructions as f64 / operations as f64;
    let instructions = per_operation(functions.values().sum());
    let functions: BTreeMap<_, _> =
        functions.into_iter().map(|(name, instructions)| (name, per_operation(instructions))).collect();
    if instructions == 0.0 {
        return Err(format!("{}: no function is called {}", workload.name, workload.counted));
    }
    Ok(Counted { instructions, functions })
}

/// Prints a workload's instructions beside those in the repository. Returns whether they have not grown by more than [`MAX_GROWTH`].
fn compare(workload: &Workload, now: &Counted, before: Option<&Counted>, writes: bool) -> bool {
    let Workload { name, operation, .. } = workload;
    let seen = format!("{name:<18} {:>11.1} instructions for each {operation}", now.instructions);
    let Some(before) = before else {
        println!("{seen}{}", if writes { "" } else { ": no value in the repository; --write adds it" });
        return false;
    };
    let growth = now.instructions / before.instructions - 1.0;
    println!("{seen}, {:+.2} %", 100.0 * growth);
    if growth < -MAX_GROWTH && !writes {
        println!("  better than {VALUES}: `cargo xtask counts --write` keeps it");
    }
    if growth > MAX_GROWTH {
        println!("  more than {:.0} % worse; the functions that have grown most:", 100.0 * MAX_GROWTH);
        for (function, by) in now.grown(before).take(NAMED) {
            println!("  {by:>+10.1} {function}");
        }
    }
    growth <= MAX_GROWTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_a_vendor_and_features() {
        let one = "processor\t: 0\nvendor_id\t: Acme\nflags\t\t: fpu avx sse avx2\n";
        assert_eq!(processor(&format!("{one}\n{one}")), "Acme avx avx2");
        assert_eq!(processor(""), "");
    }
}
