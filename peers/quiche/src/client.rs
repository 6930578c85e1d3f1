//! Cases of the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peer_common::args::{Case, Client, Requests, Work};
use peer_common::latency::Latencies;
use peer_common::progress::{Progress, share};
use peer_common::relay::Relay;
use peer_common::report::Report;
use peer_common::{Failure, failed, socket};

use crate::config;
use crate::endpoint::{Endpoint, Link};
use crate::job::{Job, advance};
use crate::stack;
use crate::udp::Udp;

/// Maximum time that an idle client waits. In `rebind` it then also sends a packet. Otherwise a client that
/// only receives, and has acknowledged everything, would never show its new address.
const PATIENCE: Duration = Duration::from_millis(500);

/// Time that a client waits for a session ticket, or for the echo of its datagrams.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Does the work of the options and prints a report.
pub fn run(options: &Client) -> Result<(), Failure> {
    stack::can(options.case)?;
    let relay =
        if options.case == Case::Rebind { Some(Arc::new(Relay::start(options.connect)?)) } else { None };
    let server = relay.as_ref().map_or(options.connect, |relay| relay.address);
    let udp = Udp::bind(socket::loopback_or_any(server), !options.common.no_gso)?;
    let mut caller =
        Caller { endpoint: Endpoint::new(udp, config::client(options)?, None)?, options, server };
    match (&options.work, options.case) {
        (Work::Handshakes { count, concurrency }, _) => caller.handshakes(*count, *concurrency),
        (Work::Requests(requests), _) => caller.many_requests(requests),
        (Work::Datagrams { count }, _) => caller.datagrams(*count),
        (_, Case::Resumption | Case::ZeroRtt) => caller.twice(),
        _ => caller.once(relay.as_ref()),
    }
}

/// Client endpoint with the server's address.
struct Caller<'a> {
    endpoint: Endpoint<Job>,
    options: &'a Client,
    server: std::net::SocketAddr,
}

impl Caller<'_> {
    fn connect(&mut self, session: Option<&[u8]>, job: Job) -> Result<u64, Failure> {
        let key = self.endpoint.connect(self.server, &self.options.name, session)?;
        if let Some(link) = self.endpoint.link(key) {
            link.state = job;
        }
        Ok(key)
    }

    fn report(&self) -> Report {
        Report::new()
            .text("case", self.options.case.name())
            .text("version", &format!("{:#010x}", stack::version(&self.options.common)))
    }

    /// Runs the endpoint until `ready` returns `true` for the connection.
    fn until(&mut self, key: u64, ready: impl Fn(&Link<Job>) -> bool) -> Result<(), Failure> {
        let mut silent = false;
        loop {
            let Some(link) = self.endpoint.link(key) else { return failed("the connection timed out") };
            if ready(link) {
                return Ok(());
            }
            if let Some(error) = link.connection.peer_error().or(link.connection.local_error()) {
                let reason = String::from_utf8_lossy(&error.reason);
                return failed(format!("closed with error {:#x} {reason}", error.error_code));
            }
            if silent && self.options.case == Case::Rebind {
                link.connection.send_ack_eliciting()?;
                self.endpoint.touch(key);
            }
            silent = self.endpoint.turn(PATIENCE, advance)?.is_empty();
        }
    }

    /// Does the work on one connection.
    fn once(&mut self, relay: Option<&Arc<Relay>>) -> Result<(), Failure> {
        let key = self.connect(None, Job::default())?;
        self.until(key, |link| link.connection.is_established())?;
        let nat = relay.cloned();
        let progress = Progress::new(&self.options.work, move || {
            if let Some(nat) = &nat {
                nat.rebind();
            }
        });
        let start = Instant::now();
        if let Some(link) = self.endpoint.link(key) {
            link.state = Job::new(&self.options.work, Arc::clone(&progress))?;
        }
        self.endpoint.touch(key);
        self.until(key, |link| link.state.done())?;
        let mut report = self.report().goodput(progress.moved(), start.elapsed());
        if let Some(relay) = relay {
            report = report.raw("rebindings", relay.rebound());
        }
        if let Some(link) = self.endpoint.link(key) {
            report = report.raw("lost_packets", link.connection.stats().lost);
        }
        report.cpu().print();
        self.endpoint.close(key)?;
        if relay.is_some_and(|relay| relay.rebound() == 0) { failed("the work ended early") } else { Ok(()) }
    }

    /// Makes two connections. The second one uses the session of the first one.
    fn twice(&mut self) -> Result<(), Failure> {
        let (first, second) = self.options.work.halves();
        let key = self.connect(None, Job::new(&first, Progress::new(&first, || {}))?)?;
        self.until(key, |link| link.state.done())?;
        let deadline = Instant::now() + LAST_WAIT;
        self.until(key, |link| link.connection.session().is_some() || Instant::now() > deadline)?;
        let session = self.endpoint.link(key).and_then(|link| link.connection.session().map(<[u8]>::to_vec));
        self.endpoint.close(key)?;
        let Some(session) = session else { return failed("no session ticket arrived") };

        let progress = Progress::new(&second, || {});
        let job = Job::new(&second, Arc::clone(&progress))?;
        let start = Instant::now();
        let key = if self.options.case == Case::ZeroRtt {
            self.connect(Some(&session), job)?
        } else {
            let key = self.connect(Some(&session), Job::default())?;
            self.until(key, |link| link.connection.is_established())?;
            if let Some(link) = self.endpoint.link(key) {
                link.state = job;
            }
            self.endpoint.touch(key);
            key
        };
        self.until(key, |link| link.state.done() && link.connection.is_established())?;
        let Some(link) = self.endpoint.link(key) else { return failed("the connection is gone") };
        let resumed = link.connection.is_resumed();
        let accepted = stack::early_data_accepted(&link.connection);
        let zero_rtt = accepted && self.options.case == Case::ZeroRtt;
        self.report()
            .raw("resumed", resumed)
            .raw("zero_rtt_accepted", zero_rtt)
            .goodput(progress.moved(), start.elapsed())
            .print();
        self.endpoint.close(key)?;
        match self.options.case {
            Case::ZeroRtt if !zero_rtt => failed("0-RTT was not accepted"),
            _ if !resumed => failed("the second handshake was a full one"),
            _ => Ok(()),
        }
    }

    fn many_requests(&mut self, requests: &Requests) -> Result<(), Failure> {
        let mut keys = Vec::new();
        for _ in 0..requests.connections {
            let key = self.connect(None, Job::default())?;
            self.until(key, |link| link.connection.is_established())?;
            keys.push(key);
        }
        let progress = Progress::new(&self.options.work, || {});
        let start = Instant::now();
        for (index, &key) in (0..).zip(&keys) {
            let count = share(requests.count, index, requests.connections);
            let work = Work::Requests(Requests { count, ..requests.clone() });
            if let Some(link) = self.endpoint.link(key) {
                link.state = Job::new(&work, Arc::clone(&progress))?;
            }
            self.endpoint.touch(key);
        }
        for &key in &keys {
            self.until(key, |link| link.state.done())?;
        }
        let (elapsed, mut times) = (start.elapsed(), Latencies::default());
        for &key in &keys {
            if let Some(link) = self.endpoint.link(key) {
                times.append(link.state.times());
            }
        }
        Report::new().requests(requests.count, progress.moved(), elapsed, times).cpu().print();
        keys.into_iter().try_for_each(|key| self.endpoint.close(key))
    }

    fn datagrams(&mut self, count: u64) -> Result<(), Failure> {
        let key = self.connect(None, Job::default())?;
        self.until(key, |link| link.connection.is_established())?;
        let (mut echoed, deadline) = (0, Instant::now() + LAST_WAIT);
        if let Some(link) = self.endpoint.link(key) {
            for number in 0..count {
                link.connection.dgram_send(&number.to_be_bytes())?;
            }
        }
        self.endpoint.touch(key);
        while echoed < count && Instant::now() < deadline {
            self.endpoint.turn(PATIENCE, advance)?;
            let Some(link) = self.endpoint.link(key) else { return failed("the connection is gone") };
            let mut echo = [0; 64];
            while let Ok(n) = link.connection.dgram_recv(&mut echo) {
                echoed += u64::from(n == 8);
            }
        }
        self.report().raw("sent", count).raw("echoed", echoed).print();
        self.endpoint.close(key)?;
        if echoed == 0 && count > 0 { failed("no datagram came back") } else { Ok(()) }
    }

    fn handshakes(&mut self, count: u64, concurrency: u64) -> Result<(), Failure> {
        let start = Instant::now();
        let (mut started, mut done) = (0, 0);
        while done < count {
            while started < count && started - done < concurrency {
                self.connect(None, Job::default())?;
                started += 1;
            }
            for key in self.endpoint.turn(PATIENCE, advance)? {
                let Some(link) = self.endpoint.link(key) else { return failed("a handshake failed") };
                if link.connection.is_established() {
                    self.endpoint.close(key)?;
                    done += 1;
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        Report::new().raw("handshakes", count).raw("seconds", format!("{seconds:.6}")).cpu().print();
        Ok(())
    }
}
