//! Observers of connections: traces in files, and observers of the application.

use std::fmt;
use std::sync::Arc;

use anabranch_transport::Connection;
use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};

use crate::qlog::{Trace, Traces};

/// Function that creates an observer for each connection of an endpoint.
#[derive(Clone)]
pub(crate) struct ObserverFactory(pub(crate) Arc<dyn Fn(Side) -> Box<dyn Observer> + Send + Sync>);

impl fmt::Debug for ObserverFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverFactory")
    }
}

/// Settings for the observers of future connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers {
    /// Settings of traces.
    pub(crate) traces: Traces,
    /// Factory of the application's observers.
    pub(crate) observers: Option<ObserverFactory>,
}

impl Watchers {
    pub(crate) fn from_environment() -> Self {
        Self { traces: Traces::from_environment(), ..Self::default() }
    }

    /// Adds all observers to a new connection, including `tells`, which logs its events. `name` names the
    /// trace of a server's connection. Returns the trace, if one is written.
    pub(crate) fn watch(
        &self,
        now: Time,
        connection: &mut Connection,
        name: Option<ConnectionId>,
        tells: Option<Box<dyn Observer>>,
    ) -> Option<Trace> {
        let side = connection.side();
        let mut all: Vec<Box<dyn Observer>> = tells.into_iter().collect();
        let trace = self.traces.begin(side, name);
        if let Some(trace) = &trace {
            all.push(Box::new(trace.clone()));
        }
        all.extend(self.observers.as_ref().map(|make| make.0(side)));
        if !all.is_empty() {
            connection.set_observer(now, Box::new(Observers(all)));
        }
        trace
    }
}

/// All observers of one connection.
struct Observers(Vec<Box<dyn Observer>>);

impl Observer for Observers {
    fn event(&mut self, time: Time, event: &TraceEvent<'_>) {
        self.0.iter_mut().for_each(|observer| observer.event(time, event));
    }
}
