//! Cases of the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use peer_common::args::{Case, Client, Work};
use peer_common::progress::{Progress, share};
use peer_common::relay::Relay;
use peer_common::report::Report;
use peer_common::{Failure, failed, socket};

use crate::config;
use crate::endpoint::Endpoint;
use crate::stream::Stream;
use crate::udp::Socket;
use crate::visit::Visit;

/// Keep-alive interval of a client whose address changes: one that only receives, and has acknowledged
/// everything, would never show its new address.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Time that a client waits for a ticket.
const TICKET_WAIT: Duration = Duration::from_secs(2);

/// Does the work of the options and prints a report.
pub fn run(options: &Client) -> Result<(), Failure> {
    if let Work::Handshakes { count, concurrency } = options.work {
        return Caller::new(options, options.connect)?.handshakes(count, concurrency);
    }
    let missing = match options.case {
        Case::Handshake | Case::Transfer | Case::Multiplexing => return plain(options),
        Case::Resumption | Case::ZeroRtt => return again(options),
        Case::Rebind => return rebind(options),
        Case::KeyUpdate => "tquic's interface cannot begin a key update",
        Case::ChaCha20 => "tquic's interface cannot choose cipher suites",
        Case::V2 => "tquic has no QUIC version 2",
        Case::VersionNegotiation => "tquic's client offers version 1 and no other",
        Case::Migration => "tquic's `migrate_path` is not written yet: it returns an error",
        Case::Datagram => "tquic 1.6.0 has no DATAGRAM frames",
        Case::Ecn => "tquic neither marks nor reads ECN",
    };
    Err(Failure::Unsupported(missing.into()))
}

/// Client endpoint with the server's address.
struct Caller<'a> {
    endpoint: Endpoint,
    server: SocketAddr,
    options: &'a Client,
}

impl<'a> Caller<'a> {
    fn new(options: &'a Client, server: SocketAddr) -> Result<Self, Failure> {
        let config = config::client(options, options.case == Case::ZeroRtt)?;
        let socket = Socket::bind(socket::loopback_or_any(server))?;
        Ok(Self { endpoint: Endpoint::new(config, socket, false, None), server, options })
    }

    /// Begins a connection, with a session if there is one. Returns its index.
    fn connect(&mut self, session: Option<&[u8]>) -> Result<u64, Failure> {
        let local = self.endpoint.socket.address;
        let name = Some(self.options.name.as_str());
        let index = self.endpoint.quic.connect(local, self.server, name, session, None, None)?;
        self.endpoint.visits.borrow_mut().insert(index, Visit::new(None));
        Ok(index)
    }

    /// Goes on until `done`, or until the connection has failed.
    fn until(&mut self, index: u64, mut done: impl FnMut(&mut Self, u64) -> bool) -> Result<(), Failure> {
        loop {
            if let Some(visit) = self.endpoint.visits.borrow_mut().get_mut(&index) {
                if let Some(quic) = self.endpoint.quic.conn_get_mut(index) {
                    visit.open(quic);
                }
                visit.check()?;
            }
            if done(self, index) {
                return Ok(());
            }
            self.endpoint.turn()?;
        }
    }

    fn is_established(&mut self, index: u64) -> bool {
        self.endpoint.visits.borrow().get(&index).is_some_and(|visit| visit.established)
    }

    fn is_done(&mut self, index: u64) -> bool {
        self.endpoint.visits.borrow().get(&index).is_some_and(Visit::is_done)
    }

    /// Begins `work` on a connection.
    fn begin(&mut self, index: u64, work: &Work, progress: &Arc<Progress>) -> Result<(), Failure> {
        let mut visits = self.endpoint.visits.borrow_mut();
        let Some(visit) = visits.get_mut(&index) else { return failed("no such connection") };
        visit.progress = Some(Arc::clone(progress));
        match work {
            Work::Perf { download, upload, streams } => {
                let each = |index| (share(*download, index, *streams), share(*upload, index, *streams));
                visit.todo.extend((0..*streams).map(each).map(|(down, up)| Stream::perf(down, up)));
            }
            Work::Fetch { http3, out, paths } => {
                for path in paths {
                    visit.todo.push_back(Stream::fetching(path, *http3, out.as_deref())?);
                }
            }
            Work::Requests(_) => return Err(Failure::Unsupported("this peer has no --requests".into())),
            Work::Handshakes { .. } | Work::Datagrams { .. } => return failed("this case needs a transfer"),
        }
        Ok(())
    }

    /// Closes a connection. Its last packet is sent at once.
    fn close(&mut self, index: u64) -> Result<(), Failure> {
        if let Some(quic) = self.endpoint.quic.conn_get_mut(index) {
            let _ = quic.close(true, 0, b"");
        }
        Ok(self.endpoint.quic.process_connections()?)
    }

    /// Returns the session once there is a ticket for it.
    fn session(&mut self, index: u64) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + TICKET_WAIT;
        let mut session = None;
        self.until(index, |caller, index| {
            let quic = caller.endpoint.quic.conn_get_mut(index);
            session = quic.and_then(|quic| quic.session().map(<[u8]>::to_vec));
            session.is_some() || Instant::now() > deadline
        })?;
        session.map_or_else(|| failed("no ticket"), Ok)
    }

    fn handshakes(&mut self, count: u64, concurrency: u64) -> Result<(), Failure> {
        let start = Instant::now();
        let (mut begun, mut running) = (0, Vec::new());
        while begun < count || !running.is_empty() {
            while begun < count && (running.len() as u64) < concurrency {
                running.push(self.connect(None)?);
                begun += 1;
            }
            self.endpoint.turn()?;
            let mut left = Vec::new();
            for index in running {
                if self.is_established(index) {
                    self.close(index)?;
                    self.endpoint.visits.borrow_mut().remove(&index);
                } else {
                    self.endpoint.visits.borrow_mut().get_mut(&index).map_or(Ok(()), Visit::check)?;
                    left.push(index);
                }
            }
            running = left;
        }
        let seconds = start.elapsed().as_secs_f64();
        Report::new().raw("handshakes", count).raw("seconds", format!("{seconds:.6}")).cpu().print();
        Ok(())
    }
}

fn report(case: Case) -> Report {
    Report::new().text("case", case.name()).text("version", "0x00000001")
}

/// Makes one connection.
fn plain(options: &Client) -> Result<(), Failure> {
    let mut caller = Caller::new(options, options.connect)?;
    let index = caller.connect(None)?;
    caller.until(index, Caller::is_established)?;
    let progress = Progress::new(&options.work, || {});
    let start = Instant::now();
    caller.begin(index, &options.work, &progress)?;
    caller.until(index, Caller::is_done)?;
    report(options.case).goodput(progress.moved(), start.elapsed()).cpu().print();
    caller.close(index)
}

/// Makes two connections. The second one resumes the session of the first one.
fn again(options: &Client) -> Result<(), Failure> {
    let mut caller = Caller::new(options, options.connect)?;
    let (first, second) = options.work.halves();
    let index = caller.connect(None)?;
    caller.begin(index, &first, &Progress::new(&first, || {}))?;
    caller.until(index, Caller::is_done)?;
    let session = caller.session(index)?;
    caller.close(index)?;

    let start = Instant::now();
    let index = caller.connect(Some(&session))?;
    let progress = Progress::new(&second, || {});
    if options.case == Case::Resumption {
        caller.until(index, Caller::is_established)?;
    }
    caller.begin(index, &second, &progress)?;
    caller.until(index, Caller::is_done)?;
    let Some(quic) = caller.endpoint.quic.conn_get_mut(index) else {
        return failed("the connection is gone");
    };
    let resumed = quic.is_resumed();
    let reason = quic.early_data_reason()?.unwrap_or_default().to_owned();
    let accepted = reason == "accepted";
    report(options.case)
        .raw("resumed", resumed)
        .raw("zero_rtt_accepted", accepted)
        .goodput(progress.moved(), start.elapsed())
        .print();
    caller.close(index)?;
    match options.case {
        Case::ZeroRtt if !accepted => failed(format!("0-RTT was not accepted: {reason}")),
        _ if !resumed => failed("the second handshake was a full one"),
        _ => Ok(()),
    }
}

/// Does the work through a relay, which changes the client's address.
fn rebind(options: &Client) -> Result<(), Failure> {
    let relay = Arc::new(Relay::start(options.connect)?);
    let mut caller = Caller::new(options, relay.address)?;
    let index = caller.connect(None)?;
    caller.until(index, Caller::is_established)?;
    let nat = Arc::clone(&relay);
    let progress = Progress::new(&options.work, move || nat.rebind());
    let start = Instant::now();
    caller.begin(index, &options.work, &progress)?;
    let mut shown = Instant::now();
    caller.until(index, |caller, index| {
        if shown.elapsed() > KEEP_ALIVE
            && let Some(quic) = caller.endpoint.quic.conn_get_mut(index)
        {
            shown = Instant::now();
            let _ = quic.ping(None);
        }
        caller.is_done(index)
    })?;
    report(options.case)
        .goodput(progress.moved(), start.elapsed())
        .raw("rebindings", relay.rebound())
        .raw("sent", relay.watched.to_server.datagrams.load(Relaxed))
        .print();
    caller.close(index)?;
    if relay.rebound() == 0 { failed("the work ended before the rebinding") } else { Ok(()) }
}
