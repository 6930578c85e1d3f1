//! IP packets on their way between this host's kernel and this process.

use tun_rs::VIRTIO_NET_HDR_LEN;

/// Bytes in front of a packet that is written, for the header of segmentation offload.
pub(crate) const HEADROOM: usize = VIRTIO_NET_HDR_LEN;

/// An IP packet, behind room for the header of segmentation offload.
#[derive(Clone, Debug)]
pub(crate) struct Packet(Vec<u8>);

impl Packet {
    pub(crate) fn new(packet: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(HEADROOM + packet.len());
        bytes.resize(HEADROOM, 0);
        bytes.extend_from_slice(packet);
        Self(bytes)
    }

    /// Creates the packet that begins at [`HEADROOM`].
    pub(crate) fn with_headroom(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.get(HEADROOM..).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(HEADROOM..).unwrap_or_default()
    }

    /// Returns the packet with its headroom.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
