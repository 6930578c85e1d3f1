use anabranch_http3::frame::{ControlFrame, FrameHeader, FrameType};
use anabranch_http3::trace::{FrameContent, FrameTrace, Observer, TraceEvent};
use anabranch_http3::{Priority, Settings, StreamType};
use anabranch_wire::{Dir, Side, StreamId, Time};
use serde_json::Value;

use super::MAX_FIELDS;
use crate::tests::{Sink, info};
use crate::{Clock, Qlog};

fn frame(kind: FrameType, content: FrameContent<'_>) -> FrameTrace<'_> {
    let id = StreamId::new(Side::Client, Dir::Bi, 4);
    FrameTrace::new(id, FrameHeader { kind, len: 77 }, content)
}

const SCHEMA: &str = include_str!("../http3-events.cddl");

/// Calls `see` with every kind of event at least once.
fn every_event(mut see: impl FnMut(&TraceEvent<'_>)) {
    let id = StreamId::new(Side::Client, Dir::Bi, 3);
    let mut settings = Settings::default();
    settings.max_field_section_size = Some(9);
    settings.h3_datagram = true;
    let priority = Priority::new(1, true);
    see(&TraceEvent::Parameters { local: true, settings: &settings });
    see(&TraceEvent::Parameters { local: false, settings: &Settings::default() });
    for kind in [StreamType::CONTROL, StreamType::PUSH, StreamType::QPACK_ENCODER, StreamType::QPACK_DECODER]
    {
        see(&TraceEvent::StreamType { id, local: true, kind: Some(kind) });
    }
    see(&TraceEvent::StreamType { id, local: false, kind: None });
    see(&TraceEvent::PriorityUpdated { id, priority });
    see(&TraceEvent::Datagram { id, local: true, len: 5 });
    see(&TraceEvent::Datagram { id, local: false, len: 6 });
    let fields = [
        (b":method".to_vec(), Some(b"GET".to_vec())),
        (b"x-odd".to_vec(), Some(b"\xff\n".to_vec())),
        (b"authorization".to_vec(), None),
    ];
    see(&TraceEvent::FrameParsed(frame(FrameType::HEADERS, FrameContent::Fields(&fields))));
    see(&TraceEvent::FrameCreated(frame(FrameType::DATA, FrameContent::Opaque)));
    see(&TraceEvent::FrameParsed(frame(FrameType(0x21), FrameContent::Opaque)));
    see(&TraceEvent::FrameParsed(frame(FrameType(0x22), FrameContent::Opaque)));
    for (kind, control) in [
        (FrameType::SETTINGS, ControlFrame::Settings(settings)),
        (FrameType::GOAWAY, ControlFrame::GoAway(4)),
        (FrameType::CANCEL_PUSH, ControlFrame::CancelPush(1)),
        (FrameType::MAX_PUSH_ID, ControlFrame::MaxPushId(2)),
        (
            FrameType::PRIORITY_UPDATE_REQUEST,
            ControlFrame::PriorityUpdate { push: false, element: 8, priority },
        ),
        (FrameType::PRIORITY_UPDATE_PUSH, ControlFrame::PriorityUpdate { push: true, element: 8, priority }),
    ] {
        see(&TraceEvent::FrameParsed(frame(kind, FrameContent::Control(&control))));
    }
}

fn records() -> Vec<Value> {
    let sink = Sink::new();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Server, Clock::Virtual));
    every_event(|event| Observer::event(&mut qlog, Time::from_nanos(1_500_000), event));
    drop(qlog);
    let text = sink.text();
    text.split('\u{1e}').skip(2).map(|record| serde_json::from_str(record).unwrap()).collect()
}

fn check(record: &Value) -> Result<(), String> {
    let name = record["name"].as_str().unwrap().strip_prefix("http3:").unwrap();
    for (rule, value) in [("event", record), (name, &record["data"])] {
        let schema = format!("root = {rule}\n{SCHEMA}");
        cddl::validate_json_from_str(&schema, &value.to_string(), None)
            .map_err(|error| format!("{record}\n{error}"))?;
    }
    Ok(())
}

#[test]
fn events_fit_the_drafts_schema() {
    let records = records();
    assert!(records.len() > 15);
    for record in &records {
        check(record).unwrap();
    }
    let mut record = records[0].clone();
    record["data"]["news"] = 1.into();
    assert!(check(&record).is_err(), "the schema lets an unknown field through");
}

#[test]
fn fields_are_text_where_they_can_be_and_secrets_stay_out() {
    let records = records();
    let headers = records.iter().find(|record| record["data"]["frame"]["frame_type"] == "headers").unwrap();
    let expected = serde_json::json!([
        { "name": ":method", "value": "GET" },
        { "name": "x-odd", "value_bytes": "ff0a" },
        { "name": "authorization" },
    ]);
    assert_eq!(headers["data"]["frame"]["headers"], expected);
    assert_eq!(headers["time"], 1.5);
}

#[test]
fn heads_without_end_are_cut() {
    let sink = Sink::new();
    let mut qlog = Qlog::new(Box::new(sink.clone()), &info(Side::Server, Clock::Virtual));
    let fields = vec![(b"x".to_vec(), Some(b"y".to_vec())); 3 * MAX_FIELDS];
    let head = frame(FrameType::HEADERS, FrameContent::Fields(&fields));
    Observer::event(&mut qlog, Time::from_nanos(1), &TraceEvent::FrameParsed(head));
    drop(qlog);
    let record: Value = serde_json::from_str(sink.text().split('\u{1e}').next_back().unwrap()).unwrap();
    assert_eq!(record["data"]["frame"]["headers"].as_array().unwrap().len(), MAX_FIELDS);
}
