//! A train of datagrams from the server to the client, instead of a connection.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use super::topology::{CLIENT_PORT, PORT, SERVER, Topology, client_address};
use crate::order::{Order, Report};
use crate::train::train;

/// Time after the last datagram for which the receiver waits for further ones.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends the train over the first path, and records the times at which each datagram left and arrived.
pub(super) fn run(order: &Order, topology: &mut Topology, seed: u64, packets: u32) -> io::Result<Report> {
    let cars = train(seed, packets, order.paths[0].down.first.rate_bps);
    topology.client.enter()?;
    let receiver = UdpSocket::bind((client_address(order, 0), CLIENT_PORT))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    topology.server.enter()?;
    let sender = UdpSocket::bind((SERVER, PORT))?;
    sender.connect((client_address(order, 0), CLIENT_PORT))?;
    let begin = Instant::now();
    let since = move |at: Instant| at.saturating_duration_since(begin).as_nanos() as u64;
    let arrivals = thread::spawn(move || {
        let (mut arrivals, mut buffer) = (BTreeMap::new(), [0; 2048]);
        while let Ok(read) = receiver.recv(&mut buffer) {
            let at = Instant::now();
            if let Some(number) = buffer[..read].first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) {
                arrivals.insert(number, since(at));
            }
        }
        arrivals
    });
    let mut sent = Vec::new();
    for (number, car) in (0_u32..).zip(&cars) {
        let wait = (begin + Duration::from_nanos(car.at_ns)).saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        let mut datagram = vec![0; car.payload];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        sent.push(since(Instant::now()));
        sender.send(&datagram)?;
    }
    let arrivals = arrivals.join().map_err(|_| io::Error::other("a thread has ended early"))?;
    let train = (0..).zip(sent).map(|(number, sent)| (sent, arrivals.get(&number).copied())).collect();
    Ok(Report { train, overflows: topology.overflows(true)?, ..Report::default() })
}
