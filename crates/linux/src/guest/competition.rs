//! Several connections that send for the same time, the first one with the order's stack and the others with
//! TCP.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use socket2::{Protocol, SockRef};

use super::application::{CHUNK, REQUEST, Received, open, prepared, receive, send};
use super::topology::{CLIENT_PORT, PORT, SERVER, Topology, client_address, other_address};
use super::{REST, counts, tls};
use crate::order::{Order, Report};
use crate::stack::Control;

/// Port of the server for the other connections.
const OTHERS_PORT: u16 = 444;
/// Number of bytes that no link can carry during a run.
const ENDLESS: u64 = 1 << 50;

/// Plan of a competition.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Number of other connections.
    pub(super) others: u32,
    /// Congestion control of the other connections.
    pub(super) control: Control,
    /// Time for which all connections send.
    pub(super) length: Duration,
}

/// Message of a connection: it is ready for data, or it has ended early.
enum Told {
    Ready(usize, Instant),
    Failed(String),
}

/// Runs all connections for the planned time, and reports the bytes that each client has received by then.
pub(super) fn run(order: &Order, topology: &mut Topology, plan: Plan) -> io::Result<Report> {
    topology.server.enter()?;
    let own = open(order.stack.protocol(), (SERVER, PORT))?;
    let others = open(Protocol::TCP, (SERVER, OTHERS_PORT))?;
    let (told, heard) = mpsc::channel();
    own.listen(1)?;
    others.listen(i32::try_from(plan.others).unwrap_or(i32::MAX).max(1))?;
    serve(order, own.into(), None, &told);
    serve(order, others.into(), Some(plan.control), &told);
    thread::sleep(REST);

    topology.client.enter()?;
    let begin = Instant::now();
    let mut received = vec![Arc::new(Received::default())];
    ask(order, (0, client_address(order, 0), PORT), &received[0], &told);
    for other in 0..plan.others {
        let count = Arc::new(Received::default());
        ask(order, (other as usize + 1, other_address(other), OTHERS_PORT), &count, &told);
        received.push(count);
    }
    let end = begin + plan.length;
    let (stop, stopped) = mpsc::channel();
    thread::spawn(move || {
        thread::sleep(end.saturating_duration_since(Instant::now()));
        drop::<mpsc::Sender<()>>(stop);
    });
    // `vary` returns at `end` at the latest.
    let varied = topology.vary(order, begin, &stopped);
    thread::sleep(end.saturating_duration_since(Instant::now()));
    let flows = received.iter().map(|count| count.load(Ordering::Relaxed)).collect();

    topology.server.enter()?;
    let mut report = Report { flows, paths: counts::of_paths(order)?, ..Report::default() };
    let mut failures = Vec::new();
    for message in heard.try_iter() {
        match message {
            Told::Ready(0, at) => {
                report.handshake_ns = Some(at.saturating_duration_since(begin).as_nanos() as u64);
            }
            Told::Ready(..) => {}
            Told::Failed(failure) => failures.push(failure),
        }
    }
    failures.extend(varied.err().map(|error| format!("a link could not be changed: {error}")));
    if order.stack.is_multipath() && counts::fallbacks()? > 0 {
        failures.push("Multipath TCP has fallen back to TCP".to_owned());
    }
    report.failure = failures.join(", ");
    report.overflows = topology.overflows(true)?;
    Ok(report)
}

/// Starts a thread in this thread's namespace that accepts connections and sends on each of them without end.
/// The listening socket stays open for further subflows. `control` replaces the namespace's congestion
/// control.
fn serve(order: &Order, listener: TcpListener, control: Option<Control>, told: &mpsc::Sender<Told>) {
    let (order, told) = (order.clone(), told.clone());
    thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            let (order, told) = (order.clone(), told.clone());
            thread::spawn(move || {
                if let Err(error) = feed(&order, connection, control) {
                    let _ = told.send(Told::Failed(format!("a server: {error}")));
                }
            });
        }
    });
}

fn feed(order: &Order, connection: TcpStream, control: Option<Control>) -> io::Result<()> {
    if let Some(control) = control {
        SockRef::from(&connection).set_tcp_congestion(control.name().as_bytes())?;
    }
    let mut stream = tls::server(order, prepared(connection)?)?;
    stream.read_exact(&mut [0; REQUEST as usize])?;
    send(&mut stream, ENDLESS, &vec![0; CHUNK])
}

/// Starts a thread in this thread's namespace that connects from `address` to the server's `port` and counts
/// the bytes that it receives.
fn ask(
    order: &Order,
    (index, address, port): (usize, Ipv4Addr, u16),
    received: &Arc<Received>,
    told: &mpsc::Sender<Told>,
) {
    let (order, told, received) = (order.clone(), told.clone(), Arc::clone(received));
    let protocol = if index == 0 { order.stack.protocol() } else { Protocol::TCP };
    thread::spawn(move || {
        let connection = open(protocol, (address, CLIENT_PORT)).and_then(|socket| {
            socket.connect(&SocketAddr::from((SERVER, port)).into())?;
            prepared(socket.into())
        });
        let done = connection.and_then(|connection| {
            let mut stream = tls::client(&order, connection)?;
            let _ = told.send(Told::Ready(index, Instant::now()));
            stream.write_all(&ENDLESS.to_be_bytes())?;
            stream.flush()?;
            receive(&mut stream, ENDLESS, &received)
        });
        if let Err(error) = done {
            let _ = told.send(Told::Failed(format!("connection {index}: {error}")));
        }
    });
}
