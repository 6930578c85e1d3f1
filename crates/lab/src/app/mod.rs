//! Applications that run on simulated hosts.

mod dial;
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

pub use dial::Dial;
pub use download::{DownloadClient, DownloadServer};
pub use half::{End, Receiver, Sender};
pub use opener::PathOpener;
pub use pattern::Pattern;
pub use requests::{RequestClient, RequestTimes};
pub use upload::{UploadClient, UploadServer};

/// Application on top of a host's endpoint. When one of its methods returns, the packets that resulted from
/// its calls to the endpoint are sent.
pub trait Application: Any {
    /// Starts the application when the simulation begins.
    fn start(&mut self, _now: Time, _endpoint: &mut Endpoint) {}

    /// Handles an event of a connection.
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event);

    /// Returns the time at which [`Application::on_time`] must be called.
    fn next_time(&self) -> Option<Time> {
        None
    }

    /// Handles the time that [`Application::next_time`] returned.
    fn on_time(&mut self, _now: Time, _endpoint: &mut Endpoint) {}
}
