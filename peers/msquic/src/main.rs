//! msquic as a peer, for performance only: see `peers/README.md` for the contract.
//!
//! msquic calls back from its own threads. The state of a connection or a stream is stored in its callback.

mod client;
mod server;
mod stream;

use std::ffi::c_void;
use std::process::ExitCode;
use std::ptr;

use msquic::ffi::{
    QUIC_GLOBAL_EXECUTION_CONFIG,
    QUIC_GLOBAL_EXECUTION_CONFIG_FLAGS_QUIC_GLOBAL_EXECUTION_CONFIG_FLAG_AFFINITIZE,
    QUIC_PARAM_CONFIGURATION_SETTINGS, QUIC_PARAM_GLOBAL_EXECUTION_CONFIG, QUIC_SETTINGS,
};
use msquic::{
    Api, BufferRef, Configuration, Registration, RegistrationConfig, ServerResumptionLevel, Settings,
};
use peer_common::args::{self, Command, Common};
use peer_common::{Failure, exit_code, failed, life, socket};

/// Number of streams that a client may have open.
const STREAMS: u16 = 100;

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
    if common.no_gso || common.v2 {
        return Err(Failure::Unsupported("msquic's interface cannot switch --no-gso or --v2".into()));
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

/// Returns the settings of both client and server.
fn configuration(registration: &Registration, common: &Common) -> Result<Configuration, Failure> {
    let window = u32::try_from(common.window.next_power_of_two())?;
    let settings = Settings::new()
        .set_IdleTimeoutMs(u64::try_from(common.idle.as_millis())?)
        .set_StreamRecvWindowDefault(window)
        .set_ConnFlowControlWindow(window.saturating_mul(2))
        .set_PeerBidiStreamCount(STREAMS)
        .set_ServerResumptionLevel(ServerResumptionLevel::ResumeAndZerortt);
    let configuration = Configuration::open(registration, &[BufferRef::from("perf")], Some(&settings))?;

    // The library is faster without its own copy of sent data, but the builder above can only enable options.
    // SAFETY: all-zero is a valid value of this plain structure, in which no option is set.
    let mut raw: QUIC_SETTINGS = unsafe { std::mem::zeroed() };
    // SAFETY: the union's other view is an integer of the same bits.
    unsafe { raw.__bindgen_anon_1.IsSet.set_SendBufferingEnabled(1) };
    raw.set_SendBufferingEnabled(0);
    let (size, pointer) = (size_of_val(&raw) as u32, (&raw const raw).cast::<c_void>());
    // SAFETY: the parameter has exactly this type; it is copied during the call, and the handle is open.
    unsafe { Api::set_param(configuration.as_raw(), QUIC_PARAM_CONFIGURATION_SETTINGS, size, pointer)? };
    Ok(configuration)
}
