//! Metrics of the memory that files are read into.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::files::Memory;

/// Collector that reads the memory's state for each scrape.
#[derive(Debug)]
pub(super) struct FileMemory(pub(super) Memory);

impl Collector for FileMemory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = [
            (
                "file_memory_bytes",
                "Bytes of files in memory, read ahead or not acknowledged yet",
                self.0.held(),
            ),
            ("file_memory_max_bytes", "The most bytes of files that were in memory", self.0.most()),
        ];
        for (name, what, bytes) in figures {
            let mut metric = encoder.encode_descriptor(name, what, None, MetricType::Gauge)?;
            metric.encode_gauge(&i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }
}
