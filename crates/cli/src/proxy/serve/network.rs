//! Network behind the proxy for IP packets of clients, which is a TUN device.

use std::fs;
use std::sync::Arc;

use anabranch::proxy::server::{IpNetwork, PacketSink, Proxy};
use clap::Args;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::exit::{Exit, Failure, Result, note};
use crate::options::network;
use crate::proxy::config::VpnNetworks;
use crate::tun::{Batch, Device, MAX_WAITING, Packet};

/// MTU of the device, in bytes. The proxy sends ICMP messages with the tunnel's MTU to senders of packets that do not fit.
const MTU: u16 = 1_500;
/// Files below `/proc/sys` with the kernel's switches for forwarding of IPv4 and IPv6 packets.
const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/// Options of the network behind the proxy.
#[derive(Args, Clone, Debug)]
pub(super) struct Network {
    /// Carry IP packets, too (`anabranch vpn`), and assign addresses of this network to clients; may be repeated, for IPv4 and
    /// IPv6. Needs the capability CAP_NET_ADMIN. This host has to forward the packets, and responses have to reach it by routes
    /// or NAT
    #[arg(long = "vpn-pool", value_name = "NETWORK")]
    pools: Vec<IpNet>,
    /// Carry IP packets to this network only, which clients learn; may be repeated. Without this option, to all that the access rules
    /// allow
    #[arg(long = "vpn-route", value_name = "NETWORK", value_parser = network)]
    routes: Vec<IpNet>,
    /// Name of the TUN device for IP packets
    #[arg(long = "vpn-device", value_name = "NAME", default_value = "anabranch-vpn")]
    device: String,
}

/// Queue of packets to the device. A packet is dropped if the queue is full.
struct Queue(mpsc::Sender<Packet>);

impl PacketSink for Queue {
    fn send(&self, packet: &[u8]) -> bool {
        self.0.try_send(Packet::new(packet)).is_ok()
    }
}

impl Network {
    /// Creates the device if there are pools, here or in the configuration. Returns the proxy with its network.
    pub(super) fn attach(
        &self,
        configured: &VpnNetworks,
        proxy: Proxy,
        running: &mut JoinSet<()>,
    ) -> Result<Proxy> {
        let pools = if self.pools.is_empty() { &configured.pools } else { &self.pools };
        let routes = if self.routes.is_empty() { &configured.routes } else { &self.routes };
        if pools.is_empty() {
            return Ok(proxy);
        }
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let network = IpNetwork::new(pools.iter().copied(), Queue(queue));
        let network = network.map_err(|error| Failure::new(Exit::Usage, error))?;
        let network = network.with_routes(routes.iter().copied());
        let device = Arc::new(Device::create(&self.device, MTU)?);
        for gateway in network.gateways() {
            device.add_address(gateway)?;
        }
        check_forwarding(pools);
        running.spawn(Arc::clone(&device).write_all(waiting));
        running.spawn(read(device, network.clone()));
        Ok(proxy.with_network(network))
    }
}

/// Prints a warning for each family of the pools whose packets the kernel does not forward.
fn check_forwarding(pools: &[IpNet]) {
    for (switch, is_ipv4) in FORWARDING.into_iter().zip([true, false]) {
        let wanted = pools.iter().any(|pool| pool.addr().is_ipv4() == is_ipv4);
        let is_off = fs::read_to_string(format!("/proc/sys/{switch}")).is_ok_and(|value| value.trim() == "0");
        if wanted && is_off {
            let name = switch.replace('/', ".");
            note(format_args!("anabranch: this host forwards no packets of clients; set {name} to 1"));
        }
    }
}

/// Delivers packets from the device to clients, until the device fails.
async fn read(device: Arc<Device>, network: IpNetwork) {
    let mut batch = Batch::new();
    while device.read(&mut batch).await.is_ok() {
        batch.packets().for_each(|packet| network.deliver(packet));
    }
}
