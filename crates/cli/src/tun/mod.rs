//! TUN devices, through which this process exchanges IP packets with the kernel.

mod packet;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use nix::errno::Errno;
use tokio::sync::mpsc;
use tun_rs::{AsyncDevice, DeviceBuilder, GROTable, VIRTIO_NET_HDR_LEN};

pub(crate) use self::packet::{HEADROOM, Packet};

use crate::exit::{Exit, Failure, Result};

/// Maximum length of a name of a device (IFNAMSIZ without the final zero), in bytes.
const MAX_NAME: usize = 15;
/// Maximum number of packets that wait to be written to the device. Their senders drop further ones, or wait.
pub(crate) const MAX_WAITING: usize = 1_024;
/// Maximum number of packets that one system call writes, and into which one read is split.
const MAX_BATCH: usize = 128;
/// Size of the buffer of one packet that was read, in bytes; packets are not longer than the device's MTU.
const ROOM: usize = 2_048;
/// Size of the buffer of one read, in bytes.
const READ: usize = VIRTIO_NET_HDR_LEN + 65_535;

/// A TUN device, which vanishes with this value.
pub(crate) struct Device {
    inner: AsyncDevice,
    name: String,
}

/// Packets of one read, and its buffers.
pub(crate) struct Batch {
    raw: Vec<u8>,
    packets: Vec<Vec<u8>>,
    lens: Vec<usize>,
    count: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            raw: vec![0; READ],
            packets: vec![vec![0; ROOM]; MAX_BATCH],
            lens: vec![0; MAX_BATCH],
            count: 0,
        }
    }

    pub(crate) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let packets = self.packets.iter().zip(&self.lens).take(self.count);
        packets.filter_map(|(packet, len)| packet.get(..*len))
    }
}

impl Device {
    /// Creates a device without addresses.
    ///
    /// # Errors
    /// Fails if no device can have this name.
    pub(crate) fn check_name(name: &str) -> Result {
        if name.is_empty() || name.len() > MAX_NAME || name.contains(['/', '%', ' ']) {
            let what = format!("'{name}' is no name of a device");
            return Err(Failure::new(Exit::Usage, what).or("write 1 to 15 characters"));
        }
        Ok(())
    }

    /// Creates the device, which has no addresses yet.
    ///
    /// # Errors
    /// Fails if there is another one with this name, if this process may not create one, or if the system has none.
    pub(crate) fn create(name: &str, mtu: u16) -> Result<Self> {
        Self::check_name(name)?;
        let builder = DeviceBuilder::new().name(name).mtu(mtu);
        let inner = builder.offload(true).build_async().map_err(|error| cannot_create(name, &error))?;
        Ok(Self { inner, name: name.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds an address to the device, unless the device has it.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(crate) fn add_address(&self, address: IpNet) -> Result {
        let added = match address {
            IpNet::V4(net) => self.inner.add_address_v4(net.addr(), net.prefix_len()),
            IpNet::V6(net) => self.inner.add_address_v6(net.addr(), net.prefix_len()),
        };
        match added {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Failure::io(format!("cannot give {address} to the device {}", self.name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes an address from the device, if the device has it.
    pub(crate) fn remove_address(&self, address: IpAddr) {
        let _ = self.inner.remove_address(address);
    }

    /// Returns the index of the interface.
    pub(crate) fn index(&self) -> Result<u32> {
        self.inner.if_index().map_err(|error| Failure::io(format!("the device {}", self.name), &error))
    }

    /// Waits for packets that this host routes to the device.
    ///
    /// # Errors
    /// Fails if the device cannot be read, for instance because it was removed. A segmented packet that cannot be split is
    /// lost.
    pub(crate) async fn read(&self, batch: &mut Batch) -> io::Result<()> {
        let Batch { raw, packets, lens, count } = batch;
        *count = 0;
        match self.inner.recv_multiple(raw, packets, lens, 0).await {
            Ok(read) => *count = read,
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Writes the packets from `packets` to the device, until all senders are dropped. Packets that the kernel refuses are lost.
    pub(crate) async fn write_all(self: Arc<Self>, mut packets: mpsc::Receiver<Packet>) {
        let mut table = GROTable::default();
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while packets.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let mut buffers: Vec<_> = batch.drain(..).map(Packet::into_bytes).collect();
            let _ = self.inner.send_multiple(&mut table, &mut buffers, HEADROOM).await;
        }
    }
}

fn cannot_create(name: &str, error: &io::Error) -> Failure {
    let what = format!("cannot create the TUN device {name}: {error}");
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM | Errno::EACCES) => {
            Failure::new(Exit::NotPermitted, what).or("run as root, or with the capability CAP_NET_ADMIN")
        }
        Some(Errno::EBUSY | Errno::EEXIST) => {
            Failure::new(Exit::SecondVpn, what).or("another program has it; name another device")
        }
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => {
            Failure::new(Exit::NoTun, what).or("the kernel has none: load its module `tun`")
        }
        _ => Failure::new(Exit::NoTun, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_at_most_max_name_bytes() {
        for bad in ["", "a/b", "tun%d", &"x".repeat(MAX_NAME + 1)] {
            let failure = Device::create(bad, 1_500).err().unwrap();
            assert_eq!(failure.exit(), Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn each_reason_has_its_own_status() {
        for (errno, exit) in [
            (Errno::EPERM, Exit::NotPermitted),
            (Errno::EBUSY, Exit::SecondVpn),
            (Errno::ENOENT, Exit::NoTun),
        ] {
            let failure = cannot_create("tun0", &io::Error::from_raw_os_error(errno as i32));
            assert_eq!(failure.exit(), exit, "{failure}");
        }
    }

    #[test]
    fn max_batch_packets_fit_into_one_batch() {
        let mut batch = Batch::new();
        batch.count = MAX_BATCH;
        batch.lens.fill(ROOM);
        assert_eq!(batch.packets().count(), MAX_BATCH);
        assert_eq!(Packet::new(b"packet").bytes(), b"packet");
        const { assert!(MAX_WAITING >= MAX_BATCH) };
    }
}
