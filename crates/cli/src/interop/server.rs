//! The server: it serves `/www` until it is stopped.

use anabranch::{
    Endpoint, MultipathConfig, PreferredAddresses, RetryPolicy, ServerConfig, TransportConfig, VarInt,
    Version, config, tls,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::case::TestCase;
use super::contract::Contract;
use crate::events::Events;
use crate::exit::{self, Exit, Failure, Result};
use crate::options::{directory, listen, only_chacha20};
use crate::server::{self, Services};
use crate::signal::Stop;

/// Port of the preferred address.
const PREFERRED_PORT: u16 = 4443;
/// Time for clients to receive CONNECTION_CLOSE when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) async fn run(contract: &Contract, case: TestCase) -> Result {
    let services = Arc::new(Services::new(Some(&directory(&contract.www)?), Events::default())?);
    let mut stop = Stop::catch()?;
    let endpoint = start(contract, case)?;
    let address = endpoint.local_addr().map_err(|error| Failure::io("no local address", &error))?;
    exit::say(format_args!("listening {address}"))?;
    tokio::select! {
        () = server::accept(endpoint.clone(), services) => return Err(Failure::new(Exit::Io, "the socket failed")),
        () = stop.wait() => {}
    }
    endpoint.close(VarInt::from_u32(0), b"");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    Ok(())
}

/// Binds all addresses, including IPv6 if the host has it.
fn start(contract: &Contract, case: TestCase) -> Result<Endpoint> {
    let preferred =
        if case == TestCase::ConnectionMigration { preferred_addresses()? } else { Default::default() };
    let named = (preferred != Default::default()).then_some(preferred);
    let config = configuration(contract, case)?.with_preferred_address(named);
    let everywhere = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)]
        .map(|ip| SocketAddr::new(ip, contract.port));
    let endpoint =
        listen(config.clone(), everywhere[0], None, 1).or_else(|_| listen(config, everywhere[1], None, 1))?;
    let added = [preferred.v4.map(SocketAddr::V4), preferred.v6.map(SocketAddr::V6)];
    for address in added.into_iter().flatten() {
        let failed = |error| Failure::io(format_args!("cannot listen on {address}"), &error);
        endpoint.add_socket(address).map_err(failed)?;
    }
    Ok(endpoint)
}

fn configuration(contract: &Contract, case: TestCase) -> Result<ServerConfig> {
    let chain = config::certificates(&contract.certs.join("cert.pem"))?;
    let key = config::private_key(&contract.certs.join("priv.key"))?;
    let mut builder =
        tls::ServerConfig::builder().certificate(chain, key).alpn([case.alpn()]).early_data(true);
    if case == TestCase::ChaCha20 {
        builder = builder.provider(Arc::new(only_chacha20()));
    }
    let tls = builder.key_log_from_environment().build().map_err(|error| Failure::new(Exit::Usage, error))?;
    let idle = Duration::from_millis(case.idle_ms());
    // In all other cases the runner expects version 1, whatever versions a client offers.
    let versions = if case == TestCase::V2 { vec![Version::V2, Version::V1] } else { vec![Version::V1] };
    let defaults = TransportConfig::default();
    let patience = defaults.handshake_timeout().max(idle);
    // Multipath for clients that support it; most do not.
    let multipath = MultipathConfig::default();
    let transport = defaults
        .with_handshake_timeout(patience)
        .with_max_idle_timeout(idle)
        .with_multipath(multipath)
        .with_versions(versions);
    let config = ServerConfig::new(tls).with_transport(transport);
    Ok(if case == TestCase::Retry { config.with_retry(RetryPolicy::Always) } else { config })
}

/// Returns the host's first reachable address of each IP version, with the preferred port.
fn preferred_addresses() -> Result<PreferredAddresses> {
    let interfaces =
        getifaddrs().map_err(|error| Failure::new(Exit::Io, format!("no addresses: {error}")))?;
    let mut preferred = PreferredAddresses::default();
    let elsewhere = |flags: InterfaceFlags| {
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    for address in interfaces.filter(|interface| elsewhere(interface.flags)).filter_map(|found| found.address)
    {
        if let Some(v4) = address.as_sockaddr_in() {
            preferred.v4.get_or_insert(SocketAddrV4::new(v4.ip(), PREFERRED_PORT));
        }
        if let Some(v6) = address.as_sockaddr_in6().filter(|v6| !v6.ip().is_unicast_link_local()) {
            preferred.v6.get_or_insert(SocketAddrV6::new(v6.ip(), PREFERRED_PORT, 0, 0));
        }
    }
    Ok(preferred)
}
