//! Applications that run on simulated hosts.

mod download;
pub mod exchange;
mod half;
mod opener;
mod pattern;
mod requests;
mod upload;

use std::any::Any;

use anabranch_transport::{Endpoint, Event, Handle};
use anabranch_wire::Time;

pub use download::{DownloadClient, DownloadServer};
pub use half::{End, Receiver, Sender};
pub use opener::PathOpener;
pub use pattern::Pattern;
pub use requests::{Asked, RequestClient};
pub use upload::{UploadClient, UploadServer};

/// What runs on top of a host's endpoint. Whatever it does to the endpoint is sent when it returns.
pub trait Application: Any {
    /// The simulation begins.
    fn start(&mut self, _now: Time, _endpoint: &mut Endpoint) {}

    /// A connection has something to tell.
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event);

    /// When the application wants [`Application::on_time`] to be called.
    fn next_time(&self) -> Option<Time> {
        None
    }

    /// The time that [`Application::next_time`] named has come.
    fn on_time(&mut self, _now: Time, _endpoint: &mut Endpoint) {}
}
