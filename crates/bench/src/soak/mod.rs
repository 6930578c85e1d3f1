//! Hours of connections, paths, streams, cancellations and migrations over real sockets and a lossy link: what the library keeps of
//! all that.

mod churn;
mod place;
mod sample;
mod server;
mod visit;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use self::place::Place;
use self::sample::{Sample, Samples};
use self::server::Server;
use crate::Error;
use crate::child::Program;
use crate::report::{BROKEN, Report, rounded};
use crate::stacks::Ours;

/// Link between most clients and the server.
const LINK: &str = "100mbit/10ms/0.5%";
/// Memory that a server of this size may use, in bytes. A slope is a share of it.
const BUDGET: f64 = 256.0 * 1024.0 * 1024.0;
/// Maximum growth of the memory in an hour, as a share of [`BUDGET`].
const MAX_SLOPE: f64 = 0.001;
/// Minimum duration of a run whose slope is judged. In shorter ones, chance moves it further than [`MAX_SLOPE`].
const JUDGED: Duration = Duration::from_secs(3_600);
/// Share of the run before the first sample of the slope: memory grows until each queue has once been full.
const WARM_UP: f64 = 0.25;
/// Maximum share of attempts to connect that may fail: on a busy machine, a handshake may be too late.
const MAX_FAILED: f64 = 0.001;
/// Number of samples of a run, and the shortest and longest time between two.
const SAMPLES: u32 = 240;
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
/// Time that clients and server rest before a sample: acknowledgments and CONNECTION_CLOSE frames arrive.
const REST: Duration = Duration::from_millis(500);
/// Maximum time in which everything ends after the last client has gone: the idle timeout of both ends, and more.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Options {
    /// Duration in minutes
    #[arg(long, default_value_t = 120.0)]
    minutes: f64,
    /// Seed of the clients' actions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    ours: Ours,
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let time = Duration::try_from_secs_f64(options.minutes * 60.0)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let before = Sample::take(&runtime, 0)?;
    let (samples, place) = runtime.block_on(soak(options, time, &runtime))?;
    // Tasks end after the values that they were for.
    let begin = Instant::now();
    let mut after = Sample::take(&runtime, 0)?;
    while (after.tasks > before.tasks || after.descriptors > before.descriptors) && begin.elapsed() < PATIENCE
    {
        std::thread::sleep(Duration::from_millis(100));
        after = Sample::take(&runtime, 0)?;
    }
    let left =
        [after.tasks.saturating_sub(before.tasks), after.descriptors.saturating_sub(before.descriptors)];
    let [live, in_all, resident] = samples.slopes(time.mul_f64(WARM_UP)).map(|slope| slope / BUDGET);
    let is_judged = time >= JUDGED;
    let judged = |slope: f64| match is_judged {
        true if slope <= MAX_SLOPE => "kept",
        true => BROKEN,
        false => "too short to judge",
    };
    let nothing = |left: usize| if left == 0 { "kept" } else { BROKEN };
    let (failed, share) = place.failed();
    let wrong = place.wrong.load(Ordering::Relaxed) as usize;
    let row = |name: &str, value: String, verdict: &str| vec![name.to_owned(), value, verdict.to_owned()];
    let percent = |slope: f64| format!("{:+.4} % of {:.0} MiB an hour", 100.0 * slope, BUDGET / 1_048_576.0);
    let medians = samples.medians(time.mul_f64(WARM_UP));
    let over_time = |memory: usize| {
        let mib: Vec<_> = medians.iter().map(|part| format!("{:.2}", part[memory] / 1_048_576.0)).collect();
        mib.join(" ")
    };
    let rows = vec![
        row("live heap", percent(live), judged(live)),
        row("in MiB, over time", over_time(1), "shown"),
        row("changes, by size of blocks in bytes", samples.changes(time.mul_f64(WARM_UP)), "shown"),
        row("with C code's, as the allocator counts", percent(in_all), "shown"),
        row("in MiB, over time", over_time(2), "shown"),
        row("resident memory", percent(resident), judged(resident)),
        row("in MiB, over time", over_time(3), "shown"),
        row(
            "live heap after all have ended",
            format!("{:.0} KiB", (after.live - before.live) / 1024.0),
            "shown",
        ),
        row("tasks left", left[0].to_string(), nothing(left[0])),
        row("descriptors left", left[1].to_string(), nothing(left[1])),
        row("streams with wrong bytes", wrong.to_string(), nothing(wrong)),
        row(
            "attempts to connect that failed",
            failed.to_string(),
            if failed <= 1 || share <= MAX_FAILED { "kept" } else { BROKEN },
        ),
        row("kinds of actions that never succeeded", place.missing().to_string(), nothing(place.missing())),
    ];
    Ok(Report {
        title: format!("{:.1} minutes, seed {}: {}", time.as_secs_f64() / 60.0, options.seed, place.counts()),
        columns: vec!["what", "seen", "verdict"],
        rows,
        json: json!({
            "minutes": options.minutes,
            "live_percent_per_hour": rounded(100.0 * live),
            "allocated_percent_per_hour": rounded(100.0 * in_all),
            "resident_percent_per_hour": rounded(100.0 * resident),
            "live_bytes_left": after.live - before.live,
            "tasks_left": left[0],
            "descriptors_left": left[1],
            "wrong_streams": wrong,
            "failed_connects": failed,
            "samples": samples.json(),
        }),
    })
}

/// Runs the server and its clients for `time`, and then ends them. Returns samples, and the counts of what the clients did.
async fn soak(
    options: &Options,
    time: Duration,
    runtime: &tokio::runtime::Runtime,
) -> Result<(Samples, Arc<Place>), Error> {
    let server = Server::start()?;
    let mut relay = Command::new(options.ours.program()?);
    let mut relay = Program::start(relay.args(["relay", LINK, &server.address()?.to_string()]))?;
    let said = relay.line()?;
    let beyond = said.strip_prefix("listening ").ok_or("the relay does not listen")?.parse()?;
    let stop = Arc::new(AtomicBool::new(false));
    let place = Place::new(&server, beyond, Arc::clone(&stop))?;
    let clients = churn::start(&place, options.seed);
    let begin = Instant::now();
    let mut samples = Samples::default();
    let between = (time / SAMPLES).clamp(SHORTEST, LONGEST);
    while begin.elapsed() < time {
        tokio::time::sleep(between.min(time)).await;
        // The queues of busy connections differ by megabytes from one moment to the next, and the limit is a quarter of one.
        let _pause = place.pause().await;
        tokio::time::sleep(REST).await;
        let sample = Sample::take(runtime, server.connections())?;
        eprintln!("{:>6.0} s: {sample}", begin.elapsed().as_secs_f64());
        samples.add(begin.elapsed(), sample);
    }
    stop.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(PATIENCE, async {
        for client in clients {
            client.await?;
        }
        // A CONNECTION_CLOSE may be lost. Such a connection ends by its idle timeout.
        while server.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, Error>(())
    });
    ended.await.map_err(|_| "clients or connections have not ended")??;
    server.end().await;
    relay.terminate()?;
    Ok((samples, place))
}
