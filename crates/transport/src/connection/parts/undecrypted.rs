//! Packets that are kept until their keys are available (RFC 9001 §5.7).

use anabranch_wire::Ecn;

use crate::datagram_io::FourTuple;

/// Maximum number of packets that are kept until their keys are available (RFC 9001 §5.7).
pub(crate) const MAX_UNDECRYPTED_PACKETS: usize = 16;

/// Maximum number of kept packets at a server whose client's address is not validated.
pub(crate) const MAX_UNDECRYPTED_UNVALIDATED: usize = 2;

/// Maximum length of a packet that is kept, in bytes. Longer packets are dropped; the peer sends their
/// content again.
const MAX_UNDECRYPTED_LEN: usize = 1_500;

/// Packet that waits for keys, with the properties of its datagram.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) len: usize,
    pub(crate) packet: Box<[u8]>,
}

/// Packets that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct Undecrypted {
    pub(crate) packets: Vec<Kept>,
    /// `true` if keys have become available, so that the packets are to be tried again.
    pub(crate) retry: bool,
}

impl Undecrypted {
    pub(crate) fn keep(
        &mut self,
        tuple: &FourTuple,
        ecn: Option<Ecn>,
        len: usize,
        packet: &[u8],
        validated: bool,
    ) -> bool {
        let most = if validated { MAX_UNDECRYPTED_PACKETS } else { MAX_UNDECRYPTED_UNVALIDATED };
        let room = self.packets.len() < most && packet.len() <= MAX_UNDECRYPTED_LEN;
        if room {
            self.packets.push(Kept { tuple: *tuple, ecn, len, packet: packet.into() });
        }
        room
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_wait_for_keys_are_few_and_short() {
        let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 443));
        let tuple = FourTuple { local: address, remote: address };
        for (validated, most) in [(true, MAX_UNDECRYPTED_PACKETS), (false, MAX_UNDECRYPTED_UNVALIDATED)] {
            let mut undecrypted = Undecrypted::default();
            assert!(!undecrypted.keep(&tuple, None, 1_200, &[0; MAX_UNDECRYPTED_LEN + 1], validated));
            let kept = (0..100)
                .filter(|_| undecrypted.keep(&tuple, None, 1_200, &[0; MAX_UNDECRYPTED_LEN], validated));
            assert_eq!(kept.count(), most);
            assert_eq!(undecrypted.len(), most);
        }
    }
}
