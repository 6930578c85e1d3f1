//! Parameters that the crate gives no functions for.

use std::ffi::c_void;
use std::net::SocketAddr;
use std::ptr;

use msquic::ffi::{
    HQUIC, QUIC_PARAM_CONN_LOCAL_ADDRESS, QUIC_PARAM_CONN_REMOTE_ADDRESS, QUIC_PARAM_CONN_RESUMPTION_TICKET,
    QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT, QUIC_PARAM_GLOBAL_STATELESS_RESET_KEY, QUIC_VERSION_SETTINGS,
};
use msquic::{Addr, Api, Connection, Status};

/// Private parameter `QUIC_PARAM_CONN_FORCE_KEY_UPDATE`, without a value.
const FORCE_KEY_UPDATE: u32 = 0x8500_0000;

/// Sets a parameter. Global ones have a null handle.
///
/// # Safety
/// The handle must be open, and the parameter's value must be of this type.
pub unsafe fn set<T: ?Sized>(handle: HQUIC, param: u32, value: &T) -> Result<(), Status> {
    let (size, pointer) = (size_of_val(value) as u32, ptr::from_ref(value).cast::<c_void>());
    // SAFETY: the value is copied during the call.
    unsafe { Api::set_param(handle, param, size, pointer) }
}

/// Sets the address of the server.
pub fn remote(connection: &Connection, server: SocketAddr) -> Result<(), Status> {
    // SAFETY: the parameter takes an address, and the handle is open.
    unsafe { set(connection.as_raw(), QUIC_PARAM_CONN_REMOTE_ADDRESS, &Addr::from(server)) }
}

/// Moves a client to another address.
///
/// # Safety
/// The handle must be open.
pub unsafe fn migrate(connection: HQUIC, local: SocketAddr) -> Result<(), Status> {
    // SAFETY: the parameter takes an address, and the handle is open.
    unsafe { set(connection, QUIC_PARAM_CONN_LOCAL_ADDRESS, &Addr::from(local)) }
}

/// Makes a client resume a session.
pub fn ticket(connection: &Connection, ticket: &[u8]) -> Result<(), Status> {
    // SAFETY: the parameter takes bytes, and the handle is open.
    unsafe { set(connection.as_raw(), QUIC_PARAM_CONN_RESUMPTION_TICKET, ticket) }
}

/// Updates the keys.
///
/// # Safety
/// The handle must be open.
pub unsafe fn update_keys(connection: HQUIC) -> Result<(), Status> {
    // SAFETY: the parameter has no value, and the handle is open.
    unsafe { Api::set_param(connection, FORCE_KEY_UPDATE, 0, ptr::null()) }
}

/// Makes servers answer every Initial packet without a token with Retry: no memory is left for handshakes.
pub fn always_retry() -> Result<(), Status> {
    Api::get_ffi();
    // SAFETY: the parameter takes a number of 16 bits and no handle.
    unsafe { set(ptr::null_mut(), QUIC_PARAM_GLOBAL_RETRY_MEMORY_PERCENT, &0u16) }
}

/// Sets the key of the stateless reset tokens.
pub fn reset_key(key: &[u8; 32]) -> Result<(), Status> {
    Api::get_ffi();
    // SAFETY: the parameter takes 32 bytes and no handle.
    unsafe { set(ptr::null_mut(), QUIC_PARAM_GLOBAL_STATELESS_RESET_KEY, key) }
}

/// Sets the versions of a configuration, or with a null handle those of all. The first is a client's own.
///
/// # Safety
/// The handle must be open, and the parameter one for versions.
pub unsafe fn versions(handle: HQUIC, param: u32, versions: &[u32]) -> Result<(), Status> {
    Api::get_ffi();
    let (list, length) = (versions.as_ptr(), versions.len() as u32);
    let settings = QUIC_VERSION_SETTINGS {
        AcceptableVersions: list,
        OfferedVersions: list,
        FullyDeployedVersions: list,
        AcceptableVersionsLength: length,
        OfferedVersionsLength: length,
        FullyDeployedVersionsLength: length,
    };
    // SAFETY: the parameter takes this structure, whose lists are copied during the call.
    unsafe { set(handle, param, &settings) }
}
