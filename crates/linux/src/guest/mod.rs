//! The guest: the first process of a kernel in virtual time. It carries out one order, prints its report and
//! switches the machine off.

mod application;
mod competition;
mod counts;
mod generic;
mod namespace;
mod netlink;
mod program;
mod qdisc;
mod tls;
mod topology;
mod train;

use core::time::Duration;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};

use self::application::{Ended, Received};
use self::topology::Topology;
use crate::order::{MARK, Order, Report, Work};
use crate::stack::Transport;

/// Time between the setup and the first SYN, for which links and hosts are left idle.
const REST: Duration = Duration::from_secs(1);

/// Carries out the order in the file `order`, prints the report and switches the machine off; returns only if
/// that is not possible.
///
/// # Errors
/// Fails if this is not a guest's first process, if the report cannot be printed, or if the machine cannot be
/// switched off.
pub fn run(order: &Path) -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::other(
            "this is for the first process of a guest, which `lab` starts by itself",
        ));
    }
    // The path of the order leads through the host's `/proc`. So the order is read before the guest's own
    // `/proc` is mounted.
    let order = read(order);
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)?;
    let mut report = order
        .and_then(|order| carry_out(&order))
        .unwrap_or_else(|error| Report { failure: format!("the guest: {error}"), ..Report::default() });
    report.kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut console = io::stdout().lock();
    writeln!(console, "\n{MARK}{}", serde_json::to_string(&report)?)?;
    console.flush()?;
    reboot(RebootMode::RB_POWER_OFF).map(drop).map_err(io::Error::from)
}

fn read(path: &Path) -> io::Result<Order> {
    let order: Order = serde_json::from_slice(&fs::read(path)?)?;
    order.check().map_err(io::Error::other)?;
    Ok(order)
}

/// Creates the order's hosts and links, does the work between them, and measures it.
fn carry_out(order: &Order) -> io::Result<Report> {
    let mut topology = Topology::create(order)?;
    if let Work::Train { seed, packets } = order.work {
        return train::run(order, &mut topology, seed, packets);
    }
    if let Work::Competition { others, control, length_ns, .. } = order.work {
        let plan = competition::Plan { others, control, length: Duration::from_nanos(length_ns) };
        return competition::run(order, &mut topology, plan);
    }
    if order.stack.transport == Transport::Anabranch {
        return program::run(order, &mut topology);
    }
    topology.server.enter()?;
    let listener = application::listen(order.stack)?;
    let (told, ended) = mpsc::channel();
    let received = Arc::new(Received::default());
    let (stop, stopped) = mpsc::channel();
    thread::sleep(REST);
    let [server, client] = [(); 2].map(|()| (order.clone(), told.clone(), Arc::clone(&received)));
    // A thread starts in the namespace of the thread that creates it.
    thread::spawn(move || {
        let (order, told, received) = server;
        let _ = told.send((Side::Server, application::serve(&order, &listener, &received)));
    });
    topology.client.enter()?;
    let begin = Instant::now();
    thread::spawn(move || {
        let (order, told, received) = client;
        let _ = told.send((Side::Client, application::ask(&order, &received)));
    });
    let deadline = begin + order.deadline();
    let varied = order.clone();
    let links = thread::spawn(move || {
        let varied = topology.vary(&varied, begin, &stopped);
        (topology, varied)
    });
    let mut both = Both::default();
    let mut failure = String::new();
    while !both.is_done() && failure.is_empty() {
        match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((side, Ok(end))) => both.set(side, end),
            Ok((side, Err(error))) => failure = format!("the {}: {error}", side.name()),
            Err(_) => failure = late(order, &received),
        }
    }
    drop(stop);
    let Ok((mut topology, varied)) = links.join() else {
        return Err(io::Error::other("a thread has ended early"));
    };
    if let Err(error) = varied {
        failure = format!("a link could not be changed: {error}");
    }
    let mut report = both.report(begin);
    let uploads = matches!(order.work, Work::Upload { .. });
    if uploads { &topology.client } else { &topology.server }.enter()?;
    report.paths = counts::of_paths(order)?;
    if order.stack.is_multipath() && failure.is_empty() && counts::fallbacks()? > 0 {
        failure = "Multipath TCP has fallen back to TCP".to_owned();
    }
    report.overflows = topology.overflows(!uploads)?;
    report.failure = failure;
    Ok(report)
}

/// Describes the progress of a run that has reached its deadline.
fn late(order: &Order, received: &Received) -> String {
    let seconds = order.deadline().as_secs_f64();
    let there = received.load(Ordering::Relaxed);
    match order.work {
        Work::Download { bytes } | Work::Upload { bytes } => {
            format!("not done at the deadline of {seconds:.0} s: {there} of {bytes} bytes have come")
        }
        Work::Requests { .. } | Work::Competition { .. } | Work::Train { .. } => {
            format!("not done at the deadline of {seconds:.0} s: not all requests are answered")
        }
    }
}

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Both ends; `None` until an end has done its work.
#[derive(Default)]
struct Both {
    client: Option<Ended>,
    server: Option<Ended>,
}

impl Both {
    fn set(&mut self, side: Side, end: Ended) {
        *match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        } = Some(end);
    }

    fn is_done(&self) -> bool {
        self.client.is_some() && self.server.is_some()
    }

    /// Returns a report with the times that both ends measured, relative to `begin`.
    fn report(&self, begin: Instant) -> Report {
        let since = |at: Instant| at.saturating_duration_since(begin).as_nanos() as u64;
        let times = [&self.client, &self.server].map(|end| end.as_ref().map(|end| &end.times));
        let [client, server] = times;
        let last = [client, server].into_iter().flatten().find_map(|times| times.last_byte);
        let requests = client.map_or(&[][..], |times| &times.requests);
        Report {
            handshake_ns: client.and_then(|times| times.handshake).map(since),
            last_byte_ns: last.map(since),
            requests_ns: requests
                .iter()
                .map(|(made, answered)| {
                    (since(*made), answered.saturating_duration_since(*made).as_nanos() as u64)
                })
                .collect(),
            ..Report::default()
        }
    }
}
