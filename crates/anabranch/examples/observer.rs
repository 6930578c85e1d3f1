//! Counts the packets of a connection that are sent, acknowledged and lost, with an observer that the program
//! defines: `cargo run --example observer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anabranch::trace::{Frame, Frames, Observer, Time, TraceEvent};
use anabranch::{Endpoint, Error, SelfSigned, VarInt, config};

/// Length of the transfer in bytes.
const LEN: usize = 1_000_000;

/// Counts of one connection.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    acked: AtomicU64,
    lost: AtomicU64,
    stream_bytes: AtomicU64,
}

/// The observer of one connection, which shares its counts with the program.
struct Counter(Arc<Counts>);

impl Observer for Counter {
    // The connection waits while this function runs, so it only counts.
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        match event {
            TraceEvent::PacketSent(packet) => {
                self.0.sent.fetch_add(1, Relaxed);
                for frame in Frames::new(packet.payload, packet.direction) {
                    if let Ok(Frame::Stream(stream)) = frame {
                        self.0.stream_bytes.fetch_add(stream.data.len() as u64, Relaxed);
                    }
                }
            }
            TraceEvent::PacketAcked { .. } => _ = self.0.acked.fetch_add(1, Relaxed),
            TraceEvent::PacketLost { .. } => _ = self.0.lost.fetch_add(1, Relaxed),
            TraceEvent::VersionChosen { version } => {
                println!("{:.1} ms: {version:?}", time.as_nanos() as f64 / 1e6);
            }
            _ => {}
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let identity = SelfSigned::new(["localhost"])?;
    let server = Endpoint::server(identity.server_config(["observed"])?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let connection = server.accept().await?.await.ok()?;
        let mut stream = connection.accept_uni().await.ok()?;
        stream.read_to_end(LEN).await.ok()?;
        Some(connection.closed().await)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let counts = Arc::new(Counts::default());
    // The function is called once for each connection that begins from now on.
    client.set_observer({
        let counts = Arc::clone(&counts);
        move |_| Box::new(Counter(Arc::clone(&counts)))
    });
    let config = config::client(identity.roots()?, ["observed"])?;
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; LEN]).await?;
    stream.finish()?;
    stream.stopped().await?;
    connection.close(VarInt::ZERO, b"");
    client.wait_idle().await;
    println!("{counts:?}");
    Ok(())
}
