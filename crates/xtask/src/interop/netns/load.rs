//! TCP connection that competes with the tested connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use serde_json::{Value, json};

/// Time that the sender may take to connect to the receiver.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which both ends check whether to stop.
const TICK: Duration = Duration::from_millis(50);
/// Congestion controller of the sender.
const CONTROLLER: &str = "cubic";
/// Number of bytes in one read or write.
const PIECE: usize = 64 * 1024;

/// One end of a TCP connection that sends continuously, until standard input ends
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Load {
    /// Receive on this address, and report the number of bytes at the end
    #[arg(long, value_name = "ADDR", required_unless_present = "send")]
    receive: Option<SocketAddr>,
    /// Send to this address
    #[arg(long, value_name = "ADDR", conflicts_with = "receive")]
    send: Option<SocketAddr>,
}

pub(crate) fn run(options: &Load) -> Result<bool, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        // Even an error means that standard input has ended.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    let done = match (options.receive, options.send) {
        (Some(address), _) => receive(address, &stop),
        (None, Some(address)) => send(address, &stop),
        (None, None) => Ok(()),
    };
    done.map(|()| true).map_err(|error| error.to_string())
}

fn receive(address: SocketAddr, stop: &AtomicBool) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening {}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(TICK))?;
    let (began, mut bytes, mut piece) = (Instant::now(), 0, vec![0; PIECE]);
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{}", json!({ "bytes": bytes, "goodput_mbps": bytes as f64 * 8.0 / seconds / 1e6 }));
    Ok(())
}

fn send(address: SocketAddr, stop: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    setsockopt(&stream, TcpCongestion, &CONTROLLER.into())?;
    stream.set_write_timeout(Some(TICK))?;
    println!("listening {}", stream.local_addr()?);
    let piece = vec![0x5a; PIECE];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&piece) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // The receiver has closed the connection.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Returns the rate in Mbit/s that the receiver reported.
pub(super) fn goodput(line: &str) -> Option<f64> {
    serde_json::from_str::<Value>(line).ok()?["goodput_mbps"].as_f64()
}
