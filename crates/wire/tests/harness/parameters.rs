//! Invariants of transport parameters of either side.

use anabranch_wire::{MAX_AVAILABLE_VERSIONS, Side, TransportParameters};

pub(crate) fn run(data: &[u8]) {
    for side in [Side::Client, Side::Server] {
        match TransportParameters::decode(side, data) {
            Ok(parameters) => {
                let versions = parameters.version_information.as_ref().map_or(0, |info| info.available.len());
                assert!(versions <= MAX_AVAILABLE_VERSIONS);
                let mut bytes = Vec::new();
                parameters.encode(&mut bytes, None);
                assert_eq!(TransportParameters::decode(side, &bytes), Ok(parameters));
            }
            Err(error) => assert_eq!(error.code.0, 0x8),
        }
    }
}
