//! Opens paths by a rule of the program ([`PathChooser`], RFC 10069): `cargo run --example path_chooser`. The
//! rule gives the loopback interface three paths and every other interface none, so that the example works on
//! any host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{
    Endpoint, Error, MultipathConfig, PathChooser, PathEvent, PathPolicy, PathStatus, PathUse, SelfSigned,
    TransportConfig, VarInt, config,
};

/// Number of paths on the loopback interface.
const PATHS: usize = 3;

/// Chooser that gives paths to the loopback interface only. A chooser on a laptop could instead give metered
/// networks a low preference and a VPN tunnel no path.
#[derive(Debug)]
struct LoopbackOnly;

impl PathChooser for LoopbackOnly {
    fn choose(&self, _interface: &str, address: IpAddr) -> Option<PathUse> {
        let mut usage = PathUse::new(0, PathStatus::Available);
        usage.count = PATHS;
        (address.is_loopback() && address.is_ipv4()).then_some(usage)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let transport = Arc::new(TransportConfig::default().with_multipath(MultipathConfig::default()));
    let identity = SelfSigned::new(["localhost"])?;
    let server_config = identity.server_config(["chosen"])?.with_transport(Arc::clone(&transport));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move { Some(server.accept().await?.await.ok()?.closed().await) });

    let client_config = config::client(identity.roots()?, ["chosen"])?.with_transport(transport);
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    let mut events = connection.path_events();
    // The path manager asks the chooser again whenever an interface or an address appears or disappears.
    connection.manage_paths(PathPolicy::default().choosing(Arc::new(LoopbackOnly)));
    let all_open = async {
        // One of the paths is open already: the connection began with it.
        let mut open = 1;
        while open < PATHS {
            if let PathEvent::Opened { path } = events.next().await.ok_or("the connection has ended")? {
                println!("path {} is open", path.0);
                open += 1;
            }
        }
        Ok::<_, Error>(())
    };
    tokio::time::timeout(Duration::from_secs(5), all_open).await??;
    for path in connection.paths() {
        println!("path {} from {}: {}", path.id.0, path.tuple.local, path.state);
    }
    connection.close(VarInt::ZERO, b"");
    client.wait_close_sent().await;
    Ok(())
}
