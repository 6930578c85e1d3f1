//! Invariants of traces: each record is one line of JSON, whatever a peer or a program puts into it, and a trace
//! keeps its limit but for the end of the connection.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anabranch_http3::Settings;
use anabranch_http3::trace::{Observer as Http3Observer, TraceEvent as Http3Event};
use anabranch_qlog::{Clock, Qlog, TraceInfo};
use anabranch_testkit::source::Source;
use anabranch_transport::trace::{DropReason, Observer, TraceEvent};
use anabranch_transport::wire::{
    ConnectionId, PathId, Side, SpaceId, StreamId, Time, TransportParameters, VarInt,
};
use anabranch_transport::{ConnectionError, FourTuple};
use bytes::Bytes;

/// Maximum number of events of a trace.
const MAX_EVENTS: usize = 100;

/// Bytes beyond the limit of a trace: its warning and the end of the connection.
const BEYOND: usize = 2_048;

/// Sink whose bytes can be read while the trace owns it.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let info = TraceInfo {
        side: source.choose(&[Side::Client, Side::Server]),
        title: String::from_utf8_lossy(&source.string(30)).into_owned(),
        group_id: ConnectionId::new(&source.string(20)).unwrap(),
        clock: source.choose(&[Clock::Unix, Clock::Virtual]),
    };
    let limit = usize::from(source.number());
    let sink = Sink::default();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info).with_limit(limit as u64);
    let header = {
        qlog.flush();
        sink.0.lock().unwrap().len()
    };
    let mut now = Time::ZERO;
    for _ in 0..MAX_EVENTS {
        if source.is_empty() {
            break;
        }
        now = Time::from_nanos(now.as_nanos() + source.value() % (1 << 40));
        event(&mut qlog, now, &mut source);
    }
    let reason = Bytes::from(source.string(60));
    let code = VarInt::try_from(source.value()).unwrap();
    let error = ConnectionError::PeerApplication { code, reason };
    Observer::event(&mut qlog, now, &TraceEvent::Closed { error: &error });
    drop(qlog);
    let bytes = sink.0.lock().unwrap().clone();
    assert!(bytes.len() <= limit.max(header) + BEYOND);
    check(&bytes);
}

/// Checks that the bytes are JSON text sequences (RFC 7464) in UTF-8.
fn check(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let records = text.strip_prefix('\u{1e}').expect("a record separator").split('\u{1e}');
    for (index, record) in records.enumerate() {
        let value: serde_json::Value = serde_json::from_str(record).expect(record);
        assert!(record.ends_with('\n') && record.trim_end().lines().count() == 1);
        assert!(value.get(if index == 0 { "file_schema" } else { "name" }).is_some(), "{record}");
    }
}

fn event(qlog: &mut Qlog, now: Time, source: &mut Source<'_>) {
    let path = PathId(u32::from(source.number()));
    match source.byte() % 7 {
        0 => Observer::event(qlog, now, &TraceEvent::AlpnChosen { protocol: &source.string(30) }),
        1 => {
            let side = source.choose(&[Side::Client, Side::Server]);
            let bytes = source.string(200);
            let Ok(parameters) = TransportParameters::decode(side, &bytes) else { return };
            let local = source.flag();
            Observer::event(qlog, now, &TraceEvent::Parameters { local, parameters: &parameters });
        }
        2 => {
            let tuple = FourTuple {
                local: (source.array::<4>(), source.number()).into(),
                remote: (source.array::<16>(), source.number()).into(),
            };
            let validated = source.flag();
            Observer::event(qlog, now, &TraceEvent::PathAssigned { path, tuple, validated });
        }
        3 => {
            let number = source.value();
            Observer::event(qlog, now, &TraceEvent::PacketLost { space: SpaceId::Data, path, number });
        }
        4 => {
            let code = VarInt::try_from(source.value()).unwrap();
            Observer::event(qlog, now, &TraceEvent::PathAbandoned { path, code });
        }
        5 => {
            let size = usize::from(source.number());
            let dropped = TraceEvent::PacketDropped { kind: None, size, reason: DropReason::Malformed };
            Observer::event(qlog, now, &dropped);
        }
        _ => http3_event(qlog, now, source),
    }
}

fn http3_event(qlog: &mut Qlog, now: Time, source: &mut Source<'_>) {
    let local = source.flag();
    if source.flag() {
        let id = StreamId::from_u64(source.value());
        let len = usize::from(source.number());
        Http3Observer::event(qlog, now, &Http3Event::Datagram { id, local, len });
    } else if let Ok(settings) = Settings::decode(&source.string(60)) {
        Http3Observer::event(qlog, now, &Http3Event::Parameters { local, settings: &settings });
    }
}
