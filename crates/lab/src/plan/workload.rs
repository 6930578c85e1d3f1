//! Table `[workload]` of a plan: its fields, their bounds, and the conversion to a [`Workload`].

use core::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::PlanError;
use super::check::Source;
use crate::experiment::{End, Workload};

/// Maximum size of a transfer in bytes.
const MAX_BYTES: u64 = 100_000_000_000;

/// Table `[workload]`, with exactly one of these tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    download: Option<Download>,
    upload: Option<Upload>,
    requests: Option<Requests>,
    competition: Option<Competition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Download {
    bytes: Spanned<f64>,
    until: Option<Until>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Upload {
    bytes: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Until {
    LastByte,
    Closed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    request: Spanned<f64>,
    answer: Spanned<f64>,
    every_ms: Spanned<f64>,
    count: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Competition {
    others: Spanned<f64>,
    length_s: Spanned<f64>,
    #[serde(default)]
    one_link: bool,
}

pub(super) fn workload(source: &Source<'_>, text: Spanned<Text>) -> Result<Workload, PlanError> {
    let span = text.span();
    let Text { download, upload, requests, competition } = text.into_inner();
    let download = download.map(|text| {
        let bytes = source.whole(&text.bytes, "bytes", 1, MAX_BYTES)?;
        let until = match text.until {
            Some(Until::Closed) => End::Closed,
            Some(Until::LastByte) | None => End::LastByte,
        };
        Ok(Workload::Download { bytes, until })
    });
    let upload =
        upload.map(|text| Ok(Workload::Upload { bytes: source.whole(&text.bytes, "bytes", 1, MAX_BYTES)? }));
    let requests = requests.map(|text| {
        Ok(Workload::Requests {
            request: source.whole(&text.request, "request", 1, 1_000_000_000)?,
            answer: source.whole(&text.answer, "answer", 1, 1_000_000_000)?,
            every: Duration::from_millis(source.whole(&text.every_ms, "every_ms", 1, 3_600_000)?),
            count: source.whole(&text.count, "count", 1, 1_000_000)? as u32,
        })
    });
    let competition = competition.map(|text| {
        Ok(Workload::Competition {
            others: source.whole(&text.others, "others", 0, 64)? as u32,
            length: Duration::from_secs(source.whole(&text.length_s, "length_s", 1, 100_000)?),
            one_link: text.one_link,
        })
    });
    let choices =
        [("download", download), ("upload", upload), ("requests", requests), ("competition", competition)];
    source.one_of(span, "`workload`", choices)?
}
