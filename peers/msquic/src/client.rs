//! Client: transfers and handshakes.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use msquic::ffi::QUIC_PARAM_CONN_REMOTE_ADDRESS;
use msquic::{
    Addr, Api, Configuration, Connection, ConnectionEvent, ConnectionRef, ConnectionShutdownFlags,
    CredentialConfig, Registration, SendFlags, Status, Stream, StreamEvent, StreamOpenFlags, StreamRef,
    StreamStartFlags,
};
use peer_common::args::{Case, Client, Work};
use peer_common::progress::{Progress, share};
use peer_common::report::Report;
use peer_common::{Failure, failed};

use crate::stream::Sending;
use crate::{configuration, open};

/// Time without any event after which a client fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of closing connections that a lane keeps. Closing a handle would prevent CONNECTION_CLOSE from
/// being sent.
const ENDING: usize = 64;

/// Message from a callback to the main thread.
enum News {
    Connected,
    /// A connection has ended, with or without an error.
    Closed,
    /// A stream has ended, after this number of bytes was received.
    Received(u64),
    Failed(String),
}

/// Handles of the library, in the order in which they must be closed.
struct Caller<'a> {
    configuration: Configuration,
    registration: Registration,
    options: &'a Client,
}

/// Does the work of the options and prints a report.
pub fn run(options: &Client) -> Result<(), Failure> {
    let registration = open(&options.common)?;
    let configuration = configuration(&registration, &options.common)?;
    let ca = options.ca.display().to_string();
    configuration.load_credential(&CredentialConfig::new_client().set_ca_certificate_file(ca))?;
    let caller = Caller { configuration, registration, options };
    match (&options.work, options.case) {
        (Work::Handshakes { count, concurrency }, _) => caller.handshakes(*count, *concurrency),
        (&Work::Perf { download, upload, streams }, Case::Handshake | Case::Transfer) => {
            caller.transfer(download, upload, streams)
        }
        _ => Err(Failure::Unsupported("the msquic peer is for performance only".into())),
    }
}

impl Caller<'_> {
    /// Starts a connection.
    fn connect(&self, tell: &Sender<News>) -> Result<Connection, Failure> {
        let tell = tell.clone();
        let connection = Connection::open(&self.registration, move |_: ConnectionRef, event| {
            // If the main thread has ended, messages are discarded.
            match event {
                ConnectionEvent::Connected { .. } => _ = tell.send(News::Connected),
                ConnectionEvent::ShutdownInitiatedByTransport { status, .. } => {
                    let _ = tell.send(News::Failed(format!("the connection failed with status {status}")));
                }
                ConnectionEvent::ShutdownInitiatedByPeer { error_code } => {
                    let _ = tell.send(News::Failed(format!("closed by the server: {error_code}")));
                }
                ConnectionEvent::ShutdownComplete { .. } => _ = tell.send(News::Closed),
                _ => {}
            }
            Ok(())
        })?;
        let address = Addr::from(self.options.connect);
        let (size, pointer) = (size_of_val(&address) as u32, (&raw const address).cast::<c_void>());
        // SAFETY: the parameter takes an address, copied during the call; the handle is open.
        unsafe { Api::set_param(connection.as_raw(), QUIC_PARAM_CONN_REMOTE_ADDRESS, size, pointer)? };
        connection.start(&self.configuration, &self.options.name, self.options.connect.port())?;
        Ok(connection)
    }

    fn transfer(&self, download: u64, upload: u64, streams: u64) -> Result<(), Failure> {
        let (tell, told) = mpsc::channel();
        let connection = self.connect(&tell)?;
        connected(&told)?;
        let progress = Progress::new(&self.options.work, || {});
        let start = Instant::now();
        for index in 0..streams {
            let (down, up) = (share(download, index, streams), share(upload, index, streams));
            perf(&connection, down, up, tell.clone(), Arc::clone(&progress))?;
        }
        let mut received = 0;
        for _ in 0..streams {
            match told.recv_timeout(PATIENCE)? {
                News::Received(bytes) => received += bytes,
                News::Failed(why) => return failed(why),
                News::Connected | News::Closed => return failed("the connection ended early"),
            }
        }
        let elapsed = start.elapsed();
        let stats = connection.get_stats_v2()?;
        Report::new()
            .text("case", self.options.case.name())
            .text("version", "0x00000001")
            .goodput(received + upload, elapsed)
            .raw("lost_packets", stats.SendSuspectedLostPackets)
            .raw("mtu", stats.SendPathMtu)
            .cpu()
            .print();
        connection.shutdown(ConnectionShutdownFlags::NONE, 0);
        while !matches!(told.recv_timeout(PATIENCE)?, News::Closed) {}
        if received == download {
            Ok(())
        } else {
            failed(format!("asked for {download} bytes, got {received}"))
        }
    }

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
                            let connection = self.connect(&tell)?;
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

/// Waits for the handshake. The end of an earlier connection is ignored.
fn connected(told: &Receiver<News>) -> Result<(), Failure> {
    loop {
        match told.recv_timeout(PATIENCE)? {
            News::Connected => return Ok(()),
            News::Closed => {}
            News::Failed(why) => return failed(why),
            News::Received(_) => return failed("data before the handshake"),
        }
    }
}

/// Opens one stream. Its callback does the stream's part of the work and closes the handle at the end.
fn perf(
    connection: &Connection,
    download: u64,
    upload: u64,
    tell: Sender<News>,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let mut sending = Sending::new(upload, true);
    let mut received = 0;
    // The callback owns the request's bytes, which therefore live as long as the stream.
    let head = Box::new(download.to_be_bytes());
    let request = Box::new([msquic::BufferRef::from(&head[..])]);
    let view = (&raw const *request).cast::<[msquic::BufferRef; 1]>();
    let stream = Stream::open(connection, StreamOpenFlags::NONE, move |stream: StreamRef, event| {
        let (_, _) = (&head, &request);
        match event {
            StreamEvent::Receive { total_buffer_length, .. } => {
                received += *total_buffer_length;
                progress.add(*total_buffer_length);
            }
            StreamEvent::PeerSendShutdown => _ = tell.send(News::Received(received)),
            StreamEvent::PeerSendAborted { error_code } => {
                let _ = tell.send(News::Failed(format!("stream reset: {error_code}")));
            }
            StreamEvent::SendComplete { cancelled, client_context } => {
                sending.completed(client_context);
                if !cancelled {
                    sending.push(&stream)?;
                }
            }
            StreamEvent::IdealSendBufferSize { byte_count } => {
                sending.ideal(byte_count);
                sending.push(&stream)?;
            }
            // The upload begins here, in the callback that continues it.
            StreamEvent::StartComplete { .. } => sending.push(&stream)?,
            // SAFETY: this is the last event, and ownership of the handle was released below.
            StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
            _ => {}
        }
        Ok::<(), Status>(())
    })?;
    // SAFETY: the buffer is owned by the callback, which lives as long as the stream.
    unsafe { stream.send(&*view, SendFlags::NONE, std::ptr::null())? };
    stream.start(StreamStartFlags::NONE)?;
    // SAFETY: the callback owns the handle from here on.
    let _ = unsafe { stream.into_raw() };
    Ok(())
}
