//! A VPN that runs: it carries packets, and follows its proxy and its configuration.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::ip::{PacketHeader, transport_protocol};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, interval_at};

use super::flows::UdpFlows;
use super::host::{Host, Tools};
use super::options::{Connect, MTU};
use super::packets::{self, Open, Outgoing, Packets, Terms};
use super::remotes::Remotes;
use super::stack::Stack;
use crate::exit::{self, Exit, Failure, Result};
use crate::proxy::config::Configured;
use crate::proxy::connect::link::{Fresh, Link};
use crate::proxy::connect::seeing::{Bound, Seeing};
use crate::proxy::connect::way::{self, Dial};
use crate::serve::systemd;
use crate::signal::{Again, Stop};
use crate::tun::{self, Batch, Device};

/// Interval at which new addresses of the proxy are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// Interval at which the proxy's name is resolved again.
const REFRESH: Duration = Duration::from_secs(60);

/// A connection to the proxy, and what else a VPN needs that has not changed this host yet.
pub(super) struct Connected {
    pub(super) device: Arc<Device>,
    pub(super) bound: Bound,
    pub(super) remotes: Remotes,
    pub(super) fresh: Fresh,
    pub(super) open: Open,
}

/// Signals to the command.
pub(super) struct Signals {
    pub(super) stop: Stop,
    pub(super) again: Again,
}

/// Ways of programs' packets into the tunnel.
struct Inside {
    stack: Stack,
    flows: UdpFlows,
    packets: Outgoing,
}

/// The running command.
struct Running<'a> {
    configured: &'a Configured<Connect>,
    tools: &'a Tools,
    link: Link,
    remotes: Remotes,
    host: Host,
    packets: Arc<Packets>,
    terms: watch::Receiver<Terms>,
    /// Options that cannot change.
    seeing: Seeing,
}

/// Carries packets until a signal arrives or the device is gone.
pub(super) async fn run(
    connected: Connected,
    options: &Connect,
    configured: &Configured<Connect>,
    tools: &Tools,
    signals: &mut Signals,
) -> Result {
    let Connected { device, bound, remotes, fresh, open } = connected;
    let host = Host::new(tools.clone(), Arc::clone(&device))?;
    let (link, seeing) = (Link::new(fresh), options.seeing.clone());
    let (out, waiting) = mpsc::channel(tun::MAX_WAITING);
    let (packets, receive) = Packets::new(link.current(), open, out.clone());
    let inside = Inside {
        stack: Stack::new(link.current(), out.clone(), MTU.into()),
        flows: UdpFlows::new(link.current(), out, MTU.into()),
        packets: Outgoing::new(Arc::clone(&packets)),
    };
    let (tell, gone) = oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&device).write_all(waiting));
    tasks.spawn(receive);
    tasks.spawn(read(device, inside, tell));
    let terms = packets.terms();
    let mut running = Running { configured, tools, link, remotes, host, packets, terms, seeing };
    let result = match running.begin(options, bound, &mut tasks).await {
        Ok(()) => running.carry(signals, gone).await,
        Err(failure) => Err(failure),
    };
    systemd::stopping();
    running.link.end(&mut tasks).await;
    result
}

impl Running<'_> {
    /// Changes this host, and tells everybody that the VPN is there.
    async fn begin(&mut self, options: &Connect, bound: Bound, tasks: &mut JoinSet<()>) -> Result {
        self.remotes.follow(&self.link.clients()).await;
        let terms = self.terms.borrow_and_update().clone();
        self.host.begin(&options.wanted(), &terms).await?;
        self.show_addresses();
        let addresses: Vec<_> = terms.addresses.iter().map(ToString::to_string).collect();
        let mut lines = vec![format!("connected {} {}", self.host.device(), addresses.join(" "))];
        lines.extend(bound.start(&self.link.current(), tasks)?);
        exit::say(lines.join("\n"))?;
        systemd::ready();
        Ok(())
    }

    async fn carry(&mut self, signals: &mut Signals, mut gone: oneshot::Receiver<()>) -> Result {
        let mut look = interval(LOOK);
        let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
        loop {
            tokio::select! {
                () = signals.stop.wait() => return Ok(()),
                _ = &mut gone => return Err(Failure::new(Exit::Io, "the TUN device is gone")),
                () = signals.again.wait() => tokio::select! {
                    () = signals.stop.wait() => return Ok(()),
                    () = self.reload() => {}
                },
                Ok(()) = self.terms.changed() => {
                    let terms = self.terms.borrow_and_update().clone();
                    if let Err(failure) = self.host.follow(&terms).await {
                        failure.say();
                    }
                    self.show_addresses();
                }
                _ = look.tick() => self.remotes.follow(&self.link.clients()).await,
                _ = refresh.tick() => self.remotes.refresh(),
            }
        }
    }

    /// Tells this host's addresses to those who ask for the state.
    fn show_addresses(&self) {
        self.link.current().borrow().seen().set_addresses(self.host.addresses());
    }

    /// Reads the configuration again. If it is invalid, or if the proxy that it names carries no packets of this host, everything
    /// stays as it was.
    async fn reload(&mut self) {
        match self.read_again().await {
            Ok(what) => exit::note(format_args!("anabranch: read again: {what}")),
            Err(failure) => {
                failure.say();
                exit::note("anabranch: everything stays as it was");
            }
        }
    }

    async fn read_again(&mut self) -> Result<String> {
        let options = self.configured.read()?;
        options.check()?;
        let (before, wanted) = (self.host.wanted().clone(), options.wanted());
        let dialled = match self.link.is_of(&options.way.print()) {
            true => None,
            false => {
                let seen = self.link.current().borrow().seen().clone();
                let lookup = self.remotes.lookup(options.way.url(), Vec::new());
                Some(options.dial(Dial::Again, self.host.device(), lookup, seen).await?)
            }
        };
        self.host.change(&wanted).await?;
        let connection = match dialled {
            None => "the connection stays",
            Some((fresh, found)) => {
                if let Err(failure) = self.replace(fresh, options.way.url(), found).await {
                    self.host.change(&before).await?;
                    return Err(failure);
                }
                "new tunnels use a new connection"
            }
        };
        let mut fixed = options.seeing.differences(&self.seeing);
        fixed.extend((options.device != self.host.device()).then_some("device"));
        way::tell_fixed(&fixed);
        let changed = wanted.differences(&before);
        Ok(match changed.is_empty() {
            true => connection.to_owned(),
            false => format!("{connection}; changed: {}", changed.join(", ")),
        })
    }

    /// Lets new TCP connections and all packets use another client.
    async fn replace(&mut self, fresh: Fresh, url: &str, found: Vec<SocketAddr>) -> Result {
        match packets::open(fresh.client(), self.host.addresses()).await {
            Ok(open) => {
                // For a start after a crash.
                let written = self.tools.record.update(|state| {
                    url.clone_into(&mut state.proxy);
                    state.remotes = found;
                });
                if let Err(failure) = written {
                    failure.say();
                }
                self.link.replace(fresh);
                self.packets.hand_over(open).await;
                Ok(())
            }
            Err(failure) => {
                // The proxy may have taken the addresses from the tunnel that stays.
                let current = self.link.current().borrow().clone();
                if let Ok(open) = packets::open(&current, self.host.addresses()).await {
                    self.packets.hand_over(open).await;
                }
                Err(failure)
            }
        }
    }
}

/// Reads the packets of this host's programs, until the device is gone. Drops `_tell` then.
async fn read(device: Arc<Device>, mut inside: Inside, _tell: oneshot::Sender<()>) {
    let mut batch = Batch::new();
    while device.read(&mut batch).await.is_ok() {
        for packet in batch.packets() {
            let Some(header) = PacketHeader::parse(packet) else { continue };
            // Fragments of TCP have no ports; they do not occur, because the device has the MTU of this host's connections.
            if header.protocol == transport_protocol::TCP && !header.is_later_fragment {
                inside.stack.handle(&header, packet);
            } else if inside.packets.is_own(&header) && !inside.flows.take(&header, packet) {
                inside.packets.send(&header, packet);
            }
        }
    }
}
