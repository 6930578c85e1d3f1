//! msquic as a peer: see `peers/README.md` for the contract.
//!
//! msquic calls back from its own threads. The state of a connection or a stream is stored in its callback.

mod caller;
mod client;
mod owned;
mod param;
mod request;
mod server;
mod stream;

use std::ffi::c_void;
use std::process::ExitCode;
use std::ptr;

use msquic::ffi::{
    QUIC_GLOBAL_EXECUTION_CONFIG,
    QUIC_GLOBAL_EXECUTION_CONFIG_FLAGS_QUIC_GLOBAL_EXECUTION_CONFIG_FLAG_AFFINITIZE,
    QUIC_PARAM_CONFIGURATION_SETTINGS, QUIC_PARAM_CONFIGURATION_VERSION_SETTINGS,
    QUIC_PARAM_GLOBAL_EXECUTION_CONFIG, QUIC_SETTINGS,
};
use msquic::{
    Api, BufferRef, Configuration, Registration, RegistrationConfig, ServerResumptionLevel, Settings,
};
use peer_common::args::{self, Case, Command, Common};
use peer_common::{Failure, exit_code, failed, life, socket};

/// Number of streams that a client may have open.
const STREAMS: u16 = 100;

/// Keep-alive interval of a client on an idle connection, in milliseconds.
const KEEP_ALIVE_MS: u32 = 500;

/// QUIC version 2 (RFC 9369).
const V2: u32 = 0x6b33_43cf;

/// Draft version that msquic has and current servers do not have.
const DRAFT_29: u32 = 0xff00_001d;

fn main() -> ExitCode {
    exit_code(args::parse().and_then(|command| match command {
        Command::Server(options) => {
            // Must precede any other thread, as `ending` requires.
            let ending = life::ending();
            server::run(&options, &ending)
        }
        Command::Client(options) => client::run(&options),
        Command::Other(word, _) => failed(format!("unknown command {word}")),
    }))
}

/// Opens the library, on one CPU if requested.
fn open(common: &Common) -> Result<Registration, Failure> {
    if common.no_gso {
        return Err(Failure::Unsupported("msquic's interface cannot switch --no-gso".into()));
    }
    if let Some(cpu) = common.one_core {
        socket::pin(cpu)?;
        // Workers pin themselves, so they must also be configured, before any other handle is opened.
        Api::get_ffi();
        let config = QUIC_GLOBAL_EXECUTION_CONFIG {
            Flags: QUIC_GLOBAL_EXECUTION_CONFIG_FLAGS_QUIC_GLOBAL_EXECUTION_CONFIG_FLAG_AFFINITIZE,
            PollingIdleTimeoutUs: 0,
            ProcessorCount: 1,
            ProcessorList: [u16::try_from(cpu)?],
        };
        let (size, pointer) = (size_of_val(&config) as u32, (&raw const config).cast::<c_void>());
        // SAFETY: the parameter has exactly this type and no handle; it is copied during the call.
        unsafe { Api::set_param(ptr::null_mut(), QUIC_PARAM_GLOBAL_EXECUTION_CONFIG, size, pointer)? };
    }
    Ok(Registration::new(&RegistrationConfig::default())?)
}

/// Returns the settings of a server, or of a client in a case.
fn configuration(
    registration: &Registration,
    common: &Common,
    protocols: &[&str],
    case: Option<Case>,
) -> Result<Configuration, Failure> {
    let window = u32::try_from(common.window.next_power_of_two())?;
    let mut settings = Settings::new()
        .set_IdleTimeoutMs(u64::try_from(common.idle.as_millis())?)
        .set_StreamRecvWindowDefault(window)
        .set_ConnFlowControlWindow(window.saturating_mul(2))
        .set_PeerBidiStreamCount(STREAMS)
        .set_HandshakeIdleTimeoutMs(u64::try_from(common.idle.as_millis())?)
        .set_DatagramReceiveEnabled()
        .set_ServerResumptionLevel(ServerResumptionLevel::ResumeAndZerortt);
    if case == Some(Case::Rebind) {
        // Otherwise a client that only receives, and has acknowledged everything, would never show its new
        // address.
        settings = settings.set_KeepAliveIntervalMs(KEEP_ALIVE_MS);
    }
    let protocols: Vec<_> = protocols.iter().map(|name| BufferRef::from(*name)).collect();
    let configuration = Configuration::open(registration, &protocols, Some(&settings))?;

    // The library is faster without its own copy of sent data, but the builder above can only enable options.
    // It has none for ECN.
    // SAFETY: all-zero is a valid value of this plain structure, in which no option is set.
    let mut raw: QUIC_SETTINGS = unsafe { std::mem::zeroed() };
    // SAFETY: the union's other view is an integer of the same bits.
    unsafe { raw.__bindgen_anon_1.IsSet.set_SendBufferingEnabled(1) };
    raw.set_SendBufferingEnabled(0);
    // SAFETY: as above.
    unsafe { raw.__bindgen_anon_1.IsSet.set_EcnEnabled(1) };
    raw.set_EcnEnabled(1);
    // SAFETY: the parameter has exactly this type, and the handle is open.
    unsafe { param::set(configuration.as_raw(), QUIC_PARAM_CONFIGURATION_SETTINGS, &raw)? };
    let version = match case {
        Some(Case::VersionNegotiation) => Some(DRAFT_29),
        Some(_) if common.v2 => Some(V2),
        _ => None,
    };
    if let Some(version) = version {
        // SAFETY: the handle is open.
        unsafe {
            param::versions(configuration.as_raw(), QUIC_PARAM_CONFIGURATION_VERSION_SETTINGS, &[version])?
        };
    }
    Ok(configuration)
}
