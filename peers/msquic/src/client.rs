//! Cases of the client.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use msquic::ffi::HQUIC;
use msquic::{Connection, ConnectionShutdownFlags};
use peer_common::args::{Case, Client, Work};
use peer_common::progress::{Progress, share};
use peer_common::relay::Relay;
use peer_common::report::Report;
use peer_common::{Failure, failed, files, socket};

use crate::caller::{Caller, News, close, connected, next, next_within};
use crate::request::{fetch, perf};
use crate::{V2, owned, param};

/// Number of closing connections that a lane keeps. Closing a handle would prevent CONNECTION_CLOSE from
/// being sent.
const ENDING: usize = 64;

/// Time that `--case datagram` waits for the last echo.
const ECHO_WAIT: Duration = Duration::from_secs(2);

/// Does the work of the options and prints a report.
pub fn run(options: &Client) -> Result<(), Failure> {
    if options.work.alpn() == "h3" {
        return Err(Failure::Unsupported("msquic has no HTTP/3".into()));
    }
    if let Work::Handshakes { count, concurrency } = options.work {
        return Caller::new(options, options.connect)?.handshakes(count, concurrency);
    }
    match options.case {
        Case::Handshake
        | Case::Transfer
        | Case::Multiplexing
        | Case::ChaCha20
        | Case::V2
        | Case::KeyUpdate
        | Case::Migration => plain(&Caller::new(options, options.connect)?),
        Case::Resumption | Case::ZeroRtt => again(&Caller::new(options, options.connect)?),
        Case::Rebind | Case::Ecn => relayed(options),
        Case::Datagram => exchange_datagrams(&Caller::new(options, options.connect)?),
        Case::VersionNegotiation => version_negotiation(&Caller::new(options, options.connect)?),
    }
}

fn report(options: &Client) -> Report {
    let version = if options.common.v2 { V2 } else { 1 };
    Report::new().text("case", options.case.name()).text("version", &format!("{version:#010x}"))
}

/// Begins `work`. Returns the number of streams, of bytes to receive, if that is known, and of bytes to send.
fn begin(
    connection: &Connection,
    work: &Work,
    early: bool,
    tell: &Sender<News>,
    progress: &Arc<Progress>,
) -> Result<(usize, Option<u64>, u64), Failure> {
    match work {
        Work::Perf { download, upload, streams } => {
            for index in 0..*streams {
                let (down, up) = (share(*download, index, *streams), share(*upload, index, *streams));
                perf(connection, down, up, tell.clone(), Arc::clone(progress))?;
            }
            Ok((usize::try_from(*streams)?, Some(*download), 8 * streams + upload))
        }
        Work::Fetch { out, paths, .. } => {
            let mut sent = 0;
            for path in paths {
                let target = out.as_deref().map(|out| files::destination(out, path));
                if target == Some(None) {
                    return failed(format!("no file name in {path}"));
                }
                sent += files::request(path).len() as u64;
                fetch(connection, path, target.flatten(), early, tell.clone(), Arc::clone(progress))?;
            }
            Ok((paths.len(), None, sent))
        }
        Work::Requests(_) | Work::Handshakes { .. } | Work::Datagrams { .. } => {
            failed("this case needs a transfer")
        }
    }
}

/// Waits for the end of streams. `note` gets all other messages.
fn finish(
    told: &Receiver<News>,
    (streams, expected): (usize, Option<u64>),
    mut note: impl FnMut(News),
) -> Result<(), Failure> {
    let (mut ended, mut received) = (0, 0);
    while ended < streams {
        match next(told)? {
            News::Received(bytes) => {
                ended += 1;
                received += bytes;
            }
            News::Closed => return failed("the connection ended early"),
            news => note(news),
        }
    }
    match expected {
        Some(expected) if expected != received => {
            failed(format!("asked for {expected} bytes, got {received}"))
        }
        _ => Ok(()),
    }
}

/// Makes one connection. In some cases, performs an action in the middle of the work.
fn plain(caller: &Caller<'_>) -> Result<(), Failure> {
    let (options, (tell, told)) = (caller.options, mpsc::channel());
    let connection = caller.connect(&tell, None)?;
    connected(&told)?;
    let before = connection.get_local_addr()?.as_socket();
    let acted = Arc::new(AtomicU64::new(0));
    let (count, case, fresh) = (Arc::clone(&acted), options.case, fresh(options.connect)?);
    let handle = Handle::of(&connection);
    let progress = Progress::new(&options.work, move || {
        let done = match case {
            // SAFETY: callbacks are not called after the connection is closed.
            Case::KeyUpdate => unsafe { param::update_keys(handle.get()) },
            // SAFETY: as above.
            Case::Migration => unsafe { param::migrate(handle.get(), fresh) },
            _ => return,
        };
        count.fetch_add(u64::from(done.is_ok()), Relaxed);
    });
    let start = Instant::now();
    let (streams, expected, upload) = begin(&connection, &options.work, false, &tell, &progress)?;
    finish(&told, (streams, expected), drop)?;
    let elapsed = start.elapsed();
    let stats = connection.get_stats_v2()?;
    let bytes = if matches!(options.work, Work::Perf { .. }) { upload - 8 * streams as u64 } else { 0 };
    let mut report = report(options).goodput(progress.moved() + bytes, elapsed);
    let acted = acted.load(Relaxed);
    match case {
        Case::KeyUpdate => report = report.raw("key_updates", acted.min(stats.KeyUpdateCount.into())),
        Case::Migration => {
            let text = |address: Option<SocketAddr>| address.map_or_else(String::new, |at| at.to_string());
            report = report
                .raw("migrations", acted)
                .text("from", &text(before))
                .text("to", &text(connection.get_local_addr()?.as_socket()));
        }
        _ => {}
    }
    report.raw("lost_packets", stats.SendSuspectedLostPackets).raw("mtu", stats.SendPathMtu).cpu().print();
    close(&connection, &told)?;
    match (case, acted) {
        (Case::KeyUpdate | Case::Migration, 0) => failed("nothing was done in the middle of the work"),
        _ => Ok(()),
    }
}

/// Returns an address of this host that nobody uses, from which the server can be reached.
fn fresh(server: SocketAddr) -> Result<SocketAddr, Failure> {
    Ok(socket::bind(socket::loopback_or_any(server))?.local_addr()?)
}

/// Handle of a connection for callbacks, which live no longer than the connection.
struct Handle(usize);

impl Handle {
    fn of(connection: &Connection) -> Self {
        // SAFETY: the handle is only read.
        Self(unsafe { connection.as_raw() } as usize)
    }

    fn get(&self) -> HQUIC {
        self.0 as HQUIC
    }
}

/// Makes two connections. The second one resumes the session of the first one.
fn again(caller: &Caller<'_>) -> Result<(), Failure> {
    let (options, (tell, told)) = (caller.options, mpsc::channel());
    let (first, second) = options.work.halves();
    let connection = caller.connect(&tell, None)?;
    connected(&told)?;
    let mut ticket = None;
    let mut note = |news| {
        if let News::Ticket(bytes) = news {
            ticket = Some(bytes);
        }
    };
    let (streams, expected, _) = begin(&connection, &first, false, &tell, &Progress::new(&first, || {}))?;
    finish(&told, (streams, expected), &mut note)?;
    if ticket.is_none()
        && let Some(News::Ticket(bytes)) = next_within(&told, ECHO_WAIT)?
    {
        ticket = Some(bytes);
    }
    close(&connection, &told)?;
    drop(connection);
    let Some(ticket) = ticket else { return failed("no ticket") };

    let early = options.case == Case::ZeroRtt;
    let progress = Progress::new(&second, || {});
    let start = Instant::now();
    let connection = caller.prepare(&tell, Some(&ticket))?;
    let mut resumed = false;
    if !early {
        caller.start(&connection)?;
        resumed = connected(&told)?;
    }
    let (streams, expected, upload) = begin(&connection, &second, early, &tell, &progress)?;
    if early {
        caller.start(&connection)?;
    }
    finish(&told, (streams, expected), |news| {
        if let News::Connected(with_session) = news {
            resumed = with_session;
        }
    })?;
    // Early data that was refused would have been sent again; whether there was any shows on the wire.
    let sent = connection.get_stats_v2()?.SendTotalStreamBytes;
    let accepted = early && resumed && sent == upload;
    report(options)
        .raw("resumed", resumed)
        .raw("zero_rtt_accepted", accepted)
        .goodput(progress.moved(), start.elapsed())
        .print();
    close(&connection, &told)?;
    match options.case {
        Case::ZeroRtt if !accepted => {
            failed(format!("0-RTT was not accepted: {sent} bytes sent for {upload}"))
        }
        _ if !resumed => failed("the second handshake was a full one"),
        _ => Ok(()),
    }
}

/// Does the work through a relay, which can change the client's address and observes the ECN marks.
fn relayed(options: &Client) -> Result<(), Failure> {
    let relay = Arc::new(Relay::start(options.connect)?);
    let caller = Caller::new(options, relay.address)?;
    let (tell, told) = mpsc::channel();
    let connection = caller.connect(&tell, None)?;
    connected(&told)?;
    let (nat, case) = (Arc::clone(&relay), options.case);
    let progress = Progress::new(&options.work, move || {
        if case == Case::Rebind {
            nat.rebind();
        }
    });
    let start = Instant::now();
    let (streams, expected, _) = begin(&connection, &options.work, false, &tell, &progress)?;
    finish(&told, (streams, expected), drop)?;
    let (up, down) = (&relay.watched.to_server, &relay.watched.to_client);
    let [sent, sent_marked, received, received_marked] =
        [&up.datagrams, &up.marked, &down.datagrams, &down.marked].map(|count| count.load(Relaxed));
    report(options)
        .goodput(progress.moved(), start.elapsed())
        .raw("rebindings", relay.rebound())
        .raw("sent", sent)
        .raw("sent_marked", sent_marked)
        .raw("received", received)
        .raw("received_marked", received_marked)
        .print();
    close(&connection, &told)?;
    match case {
        Case::Rebind if relay.rebound() == 0 => failed("the work ended before the rebinding"),
        // A stack stops marking packets if ECN validation fails (RFC 9000 §13.4.2).
        Case::Ecn if sent_marked * 2 < sent => failed("the server did not validate the client's ECN marks"),
        Case::Ecn if received_marked == 0 => failed("the server marks nothing"),
        _ => Ok(()),
    }
}

fn exchange_datagrams(caller: &Caller<'_>) -> Result<(), Failure> {
    let Work::Datagrams { count } = caller.options.work else { return failed("this case needs datagrams") };
    let (tell, told) = mpsc::channel();
    let connection = caller.connect(&tell, None)?;
    let (mut is_connected, mut can_send) = (false, false);
    while !(is_connected && can_send) {
        match next(&told)? {
            News::Connected(_) => is_connected = true,
            News::Datagrams => can_send = true,
            _ => {}
        }
    }
    for number in 0..count {
        owned::send_datagram(&connection, number.to_be_bytes().to_vec())?;
    }
    let mut echoes = 0;
    while echoes < count {
        match next_within(&told, ECHO_WAIT)? {
            Some(News::Echo(length)) => echoes += u64::from(length == 8),
            Some(_) => {}
            None => break,
        }
    }
    report(caller.options).raw("sent", count).raw("echoed", echoes).print();
    close(&connection, &told)?;
    if echoes == 0 && count > 0 { failed("no datagram came back") } else { Ok(()) }
}

fn version_negotiation(caller: &Caller<'_>) -> Result<(), Failure> {
    let (tell, told) = mpsc::channel();
    let _connection = caller.connect(&tell, None)?;
    loop {
        match next_within(&told, ECHO_WAIT * 5)? {
            Some(News::NoVersion) => break,
            Some(News::Connected(_)) => return failed("the server speaks draft 29"),
            Some(_) => {}
            None => return failed("no answer"),
        }
    }
    let case = Case::VersionNegotiation.name();
    Report::new().text("case", case).raw("version_negotiation", true).print();
    Ok(())
}

impl Caller<'_> {
    fn handshakes(&self, count: u64, concurrency: u64) -> Result<(), Failure> {
        let lanes: Vec<_> = (0..concurrency).map(|_| mpsc::channel()).collect();
        let start = Instant::now();
        std::thread::scope(|scope| {
            let lanes: Vec<_> = lanes
                .into_iter()
                .zip(0..)
                .map(|((tell, told), lane)| {
                    scope.spawn(move || -> Result<(), Failure> {
                        let mut ending = VecDeque::with_capacity(ENDING);
                        for _ in 0..share(count, lane, concurrency) {
                            let connection = self.connect(&tell, None)?;
                            connected(&told)?;
                            connection.shutdown(ConnectionShutdownFlags::NONE, 0);
                            if ending.len() == ENDING {
                                ending.pop_front();
                            }
                            ending.push_back(connection);
                        }
                        Ok(())
                    })
                })
                .collect();
            lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(|_| failed("a lane panicked")))
        })?;
        let seconds = start.elapsed().as_secs_f64();
        Report::new().raw("handshakes", count).raw("seconds", format!("{seconds:.6}")).cpu().print();
        Ok(())
    }
}
