//! Clients of the fleet: a connection with four paths that moves to another address while it transfers data.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anabranch::{ClientConfig, Connection, Endpoint, Error, PathId, VarInt};
use bytes::Bytes;

use super::server::{DATA, FILE, WHO};

/// Maximum time for a request, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Last bytes of the local addresses of further paths. On Linux, all addresses of 127.0.0.0/8 belong to the loopback interface.
const FURTHER: [u8; 3] = [2, 3, 4];
/// Maximum time until the server answers at another address.
const SILENCE: Duration = Duration::from_secs(5);
/// Pause between two steps of a client.
const PAUSE: Duration = Duration::from_millis(60);

/// End of a client's connection.
#[derive(Debug)]
pub(super) struct Visit {
    /// Number of the server, as it says itself.
    pub(super) server: Option<u16>,
    /// Address from which the client sent its first packet.
    pub(super) from: SocketAddr,
    /// Number of paths that opened, the first one included.
    pub(super) paths: usize,
    /// `true` if the server answered after the client had moved to another address.
    pub(super) has_moved: bool,
    /// Reason for which the connection failed.
    pub(super) failure: Option<String>,
}

/// Connects through the balancer at `address`, uses four paths, moves, and leaves.
pub(super) async fn visit(config: ClientConfig, address: SocketAddr) -> Result<Visit, Error> {
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
    let from = endpoint.local_addr()?;
    let mut visit = Visit { server: None, from, paths: 0, has_moved: false, failure: None };
    let result = visit.run(&endpoint, &config, address).await;
    visit.failure = result.err().map(|error| error.to_string());
    endpoint.close(VarInt::ZERO, b"done");
    endpoint.wait_close_sent().await;
    Ok(visit)
}

impl Visit {
    async fn run(
        &mut self,
        endpoint: &Endpoint,
        config: &ClientConfig,
        address: SocketAddr,
    ) -> Result<(), Error> {
        let connecting = endpoint.connect_with(config, address, "localhost")?;
        let connection =
            tokio::time::timeout(PATIENCE, connecting).await.map_err(|_| "no handshake in time")??;
        self.paths = 1;
        self.transfer(&connection).await?;
        for last in FURTHER {
            let opening = connection.open_path(IpAddr::from([127, 0, 0, last]), None);
            let opened =
                tokio::time::timeout(PATIENCE, opening).await.map_err(|_| "a path did not open in time")?;
            opened?;
            self.paths += 1;
            self.transfer(&connection).await?;
        }
        self.move_first_path(endpoint, &connection).await
    }

    /// Moves the first path to another port, and transfers data until the server has answered there, and once more. The connection works
    /// without an answer, too, on its other paths.
    async fn move_first_path(&mut self, endpoint: &Endpoint, connection: &Connection) -> Result<(), Error> {
        let received =
            || connection.paths().iter().find(|path| path.id == PathId::ZERO).map(|path| path.bytes_received);
        let (before, begin) = (received(), Instant::now());
        endpoint.rebind(UdpSocket::bind("127.0.0.1:0")?)?;
        while received() <= before && begin.elapsed() < SILENCE {
            self.transfer(connection).await?;
        }
        self.has_moved = received() > before;
        self.transfer(connection).await
    }

    /// Transfers a file, and checks that it comes from the same server as those before.
    async fn transfer(&mut self, connection: &Connection) -> Result<(), Error> {
        let file = request(connection, DATA).await?;
        if file.len() != FILE || file.iter().any(|byte| *byte != b'.') {
            return Err(format!("a file of {} bytes", file.len()).into());
        }
        let who: u16 = String::from_utf8_lossy(&request(connection, WHO).await?).parse()?;
        if *self.server.get_or_insert(who) != who {
            return Err(format!("server {who} instead of {:?}", self.server).into());
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

/// Requests a file over HTTP/0.9.
async fn request(connection: &Connection, path: &str) -> Result<Vec<u8>, Error> {
    let exchange = async {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(Bytes::from(format!("GET {path}\r\n")).as_ref()).await?;
        send.finish()?;
        Ok::<_, Error>(receive.read_to_end(2 * FILE).await?)
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| "no response in time")?
}
