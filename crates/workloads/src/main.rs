//! One workload in one process, for `cargo xtask counts`: prints how many operations were counted. Without a name it lists the
//! workloads, each with the functions in which an operation's work is done.

use std::process::ExitCode;

use anabranch_workloads::registry::WORKLOADS;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        for workload in WORKLOADS {
            println!("{}\t{}\t{}", workload.name, workload.operation, workload.counted);
        }
        return ExitCode::SUCCESS;
    };
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) else {
        eprintln!("there is no workload {name}");
        return ExitCode::from(2);
    };
    match (workload.run)() {
        Ok(operations) => {
            println!("{operations}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
