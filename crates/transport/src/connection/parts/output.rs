//! Events for the application, the router and the observer.

use std::collections::VecDeque;

use super::dealt::Dealt;
use crate::event::{EndpointEvent, Event};
use crate::trace::Observer;

/// Events that a connection reports.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) events: VecDeque<Event>,
    pub(crate) endpoint_events: VecDeque<EndpointEvent>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Packets that were dealt to several paths and have not left yet.
    pub(crate) dealt: Option<Box<Dealt>>,
}
