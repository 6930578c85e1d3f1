//! Requests during restarts of `anabranch serve --handover`: each is one of a real `anabranch get`, and none may fail.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::Error;
use crate::child::Program;
use crate::report::{BROKEN, Report, rounded};
use crate::stacks::{Identity, Ours};

/// Content of the small files.
const CONTENT: &str = "six b\n";
/// Size of the file that takes longer than a restart, in bytes.
const LARGE: usize = 8_000_000;
/// Number of older processes that may finish their connections when the next one starts.
const OLDER: usize = 2;
/// Interval between checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum time until an older process has ended.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct Options {
    /// Number of restarts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    restarts: u32,
    /// Number of clients at a time; one of them fetches a large file again and again, the others three small files on a connection
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Tasks of the server that serve QUIC at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    workers: u32,
    #[command(flatten)]
    ours: Ours,
}

/// Count of the clients' requests.
#[derive(Default)]
struct Count {
    over: AtomicBool,
    requests: AtomicU64,
    failed: AtomicU64,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let program = options.ours.program()?;
    let identity = Identity::new()?;
    let root = identity.folder().join("root");
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("file"), CONTENT)?;
    std::fs::write(root.join("large"), vec![7; LARGE])?;
    let serve = |listen: &str| {
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", listen, "--log", "none", "--drain", "60", "--root"]).arg(&root);
        command.args(["--workers", &options.workers.to_string(), "--handover"]);
        command.arg(identity.folder().join("handover")).args(identity.flags());
        Program::start(&mut command)
    };
    let mut server = serve("127.0.0.1:0")?;
    let line = server.line()?;
    let address = line.strip_prefix("listening ").ok_or_else(|| format!("the server said {line:?}"))?;
    let urls = |name: &str, times: usize| vec![format!("https://{address}/{name}"); times];
    let count = Count::default();
    let begin = Instant::now();
    let restarted = std::thread::scope(|scope| {
        for index in 0..options.clients {
            let (urls, len) =
                if index == 0 { (urls("large", 1), LARGE) } else { (urls("file", 3), 3 * CONTENT.len()) };
            let (program, identity, count) = (&program, &identity, &count);
            scope.spawn(move || {
                let mut command = Command::new(program);
                command.args(["get", "-q", "-o", "-", "--retry", "0", "--ca"]).arg(identity.certificate());
                fetch(command.args(&urls), urls.len() as u64, len, count);
            });
        }
        let restarted = restart(options.restarts, server, || serve(address), &count);
        count.over.store(true, Ordering::Relaxed);
        restarted
    });
    restarted?.terminate()?;
    Ok(report(options.restarts, begin.elapsed(), &count))
}

/// Fetches files, by a new process each time, until it is over.
fn fetch(command: &mut Command, requests: u64, len: usize, count: &Count) {
    while !count.over.load(Ordering::Relaxed) {
        let output = command.stdin(Stdio::null()).output();
        let is_whole =
            output.as_ref().is_ok_and(|output| output.status.success() && output.stdout.len() == len);
        count.requests.fetch_add(requests, Ordering::Relaxed);
        if !is_whole {
            count.failed.fetch_add(1, Ordering::Relaxed);
            let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
            eprintln!("a request failed: {said:?}");
        }
    }
}

/// Restarts the server again and again, each time after some requests. Returns the last process.
fn restart(
    restarts: u32,
    mut server: Program,
    serve: impl Fn() -> Result<Program, Error>,
    count: &Count,
) -> Result<Program, Error> {
    let mut older = Vec::new();
    for _ in 0..restarts {
        let before = count.requests.load(Ordering::Relaxed);
        let begin = Instant::now();
        while count.requests.load(Ordering::Relaxed) < before + 4 || older.len() > OLDER {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{} older processes did not end", older.len()).into());
            }
            let mut left = Vec::new();
            for mut program in older {
                if !Program::has_ended(&mut program)? {
                    left.push(program);
                }
            }
            older = left;
            std::thread::sleep(LOOK);
        }
        let mut next = serve()?;
        let line = next.line()?;
        if !line.starts_with("listening ") {
            return Err(format!("a server said {line:?}").into());
        }
        older.push(std::mem::replace(&mut server, next));
    }
    for program in &mut older {
        let begin = Instant::now();
        while !program.has_ended()? {
            if begin.elapsed() > PATIENCE {
                return Err("an older process did not end".into());
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(server)
}

fn report(restarts: u32, took: Duration, count: &Count) -> Report {
    let (requests, failed) = (count.requests.load(Ordering::Relaxed), count.failed.load(Ordering::Relaxed));
    let seconds = rounded(took.as_secs_f64());
    let verdict = if failed == 0 { "kept" } else { BROKEN };
    let cells = [restarts.to_string(), requests.to_string(), format!("{seconds}"), failed.to_string()];
    Report {
        title: "Restarts of a server under load, and requests that failed (limit: none)".to_owned(),
        columns: vec!["restarts", "requests", "seconds", "failed", "limit"],
        rows: vec![cells.into_iter().chain([verdict.to_owned()]).collect()],
        json: json!({ "restarts": restarts, "requests": requests, "failed": failed, "seconds": seconds }),
    }
}
