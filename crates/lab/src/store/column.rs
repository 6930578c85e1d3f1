//! Columns of results, listed once. CSV, Parquet and `docs/lab-results.md` all follow from this list.

use std::fmt::Write;

use crate::record::Row;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Non-negative whole number.
    Count {
        /// `true` if the value may be absent.
        optional: bool,
    },
    /// Number that may be absent.
    Number,
    /// List of non-negative whole numbers.
    Counts,
    /// List of numbers.
    Numbers,
}

/// Value of a cell.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is the value of its kind")]
pub enum Value {
    Text(String),
    Count(Option<u64>),
    Number(Option<f64>),
    Counts(Vec<u64>),
    Numbers(Vec<f64>),
}

/// Column of the results.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the column, which is the name of the field of [`Row`].
    pub name: &'static str,
    /// Unit of the values; empty for names.
    pub unit: &'static str,
    /// Meaning of the column, in one sentence.
    pub meaning: &'static str,
    /// Type of the values.
    pub kind: Kind,
    /// Function that returns the value in a row.
    pub get: fn(&Row) -> Value,
    /// Function that sets the value in a row. It returns `false` if the value is of another kind.
    pub set: fn(&mut Row, Value) -> bool,
}

macro_rules! columns {
    ($($name:ident $unit:literal $meaning:literal;)+) => {
        /// All columns, in their order.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            unit: $unit,
            meaning: $meaning,
            kind: kind_of(|row: &Row| &row.$name),
            get: |row| row.$name.get(),
            set: |row, value| row.$name.set(value),
        }),+];

        /// Checks at compile time that every field of a row has a column.
        #[cfg(test)]
        pub(super) fn is_complete(row: Row) -> bool {
            let Row { $($name: _),+ } = row;
            true
        }
    };
}

columns! {
    experiment "" "Name of the experiment.";
    variant "" "Name of the variant.";
    point "" "Number of the point, as in the column `run` of its design.";
    repetition "" "Which repetition of the point, from 0 on.";
    seed "" "Seed of everything random in the run.";
    commit "" "The commit that ran it, with a hash of the sources if they are not the commit's.";
    wire "" "What packets looked like: `v1`, `v2` or `reverso`; `guest` for a guest program's; for stacks that an engine runs the engine, with the setup: `linux`, `linux/tls12`.";
    failure "" "Empty if the run ended as it should, otherwise why it did not.";
    path_rate_mbps "Mbit/s" "Rate at first of each of the point's paths, used or not.";
    path_owd_ms "ms" "One-way delay of each of the point's paths, used or not.";
    transfer_time_s "s" "From the client's first packet to the packet that closes (CCR 2022), or to the last byte (CoNEXT 2017 and requests).";
    last_byte_s "s" "From the client's first packet to the last byte.";
    bound_s "s" "Fluid bound of a download over all paths of the point, with acknowledgments on the quickest (`crates/lab/src/fluid.rs`); none if links change, lose packets or keep no order.";
    handshake_s "s" "From the client's first packet to its complete handshake.";
    retransmitted_percent "%" "STREAM bytes that the server sent again, of those it sent once.";
    max_times_sent "times" "How often the byte that the server sent most often was sent.";
    mean_ranges "ranges" "Mean number of ranges in an acknowledgment frame of the client.";
    limit_share "0 to 1" "Share of the client's acknowledgment frames with as many ranges as its limit allows.";
    ranges_histogram "frames" "The client's acknowledgment frames with 1, 2, 3 … ranges.";
    ack_bytes "bytes" "Size of all acknowledgment frames of the client.";
    ack_frames "frames" "Acknowledgment frames of the client.";
    lost_packets "packets" "Packets of the server that it declared lost.";
    spurious_losses "packets" "Those of them that were acknowledged after all.";
    blocked_s "s" "How long the client had data of a stream, but not the byte that came next (head-of-line blocking).";
    ordered_ratio "0 to 1" "Share of the packets that the client received with a number above all earlier ones of their path.";
    reordering_packets "numbers" "Largest number of packet numbers by which another one of them had been overtaken.";
    reordering_s "s" "Longest time since one of them had been overtaken.";
    placed_bytes "bytes" "Stream bytes that the client decrypted right to where they are read (`docs/vreverso.md`).";
    copied_bytes "bytes" "Stream bytes that the client copied there after decrypting them elsewhere.";
    restored_bytes "bytes" "Received bytes that the client put aside and back because a packet was decrypted over them.";
    eben "-1 and up" "Experimental aggregation benefit against the single-path runs of the same point and repetition.";
    request_times_s "s" "When each answered request was made, since the client's first packet.";
    request_delays_s "s" "Delay of each answered request, in the order in which they were made.";
    flow_goodput_bps "bit/s" "Goodput of each connection that competed, the one with several paths first.";
    path_bytes "bytes" "STREAM bytes that the server sent on each path.";
    path_lost "packets" "Packets of the server declared lost on each path.";
    path_rtt_s "s" "Smoothed round-trip time of each path at the end, at the server.";
    path_max_queue "packets" "Most packets that waited at once in each path's queue towards the client.";
    path_overflows "packets" "Packets that did not fit into each path's queue towards the client.";
}

/// Returns the columns as a Markdown table.
pub fn markdown() -> String {
    let mut text = String::from("| Column | Type | Unit | Meaning |\n|---|---|---|---|\n");
    for Column { name, unit, meaning, kind, .. } in COLUMNS {
        let kind = match kind {
            Kind::Text => "text",
            Kind::Count { optional: false } => "whole number",
            Kind::Count { optional: true } => "whole number or nothing",
            Kind::Number => "number or nothing",
            Kind::Counts => "list of whole numbers",
            Kind::Numbers => "list of numbers",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {meaning} |");
    }
    text
}

/// Returns the kind of a column's field.
const fn kind_of<T: Cell>(_: fn(&Row) -> &T) -> Kind {
    T::KIND
}

/// Type of a field of a row.
trait Cell {
    const KIND: Kind;
    fn get(&self) -> Value;
    fn set(&mut self, value: Value) -> bool;
}

macro_rules! cells {
    ($($type:ty: $kind:expr, $value:pat => $from:expr, $self:ident => $to:expr;)+) => {
        $(impl Cell for $type {
            const KIND: Kind = $kind;

            fn get(&$self) -> Value {
                $to
            }

            fn set(&mut self, value: Value) -> bool {
                let new = match value {
                    $value => $from,
                    _ => None,
                };
                let taken = new.is_some();
                new.into_iter().for_each(|new| *self = new);
                taken
            }
        })+
    };
}

cells! {
    String: Kind::Text, Value::Text(text) => Some(text), self => Value::Text(self.clone());
    u64: Kind::Count { optional: false }, Value::Count(Some(count)) => Some(count), self => Value::Count(Some(*self));
    u32: Kind::Count { optional: false }, Value::Count(Some(count)) => u32::try_from(count).ok(),
        self => Value::Count(Some(u64::from(*self)));
    Option<u64>: Kind::Count { optional: true }, Value::Count(count) => Some(count), self => Value::Count(*self);
    Option<f64>: Kind::Number, Value::Number(number) => Some(number), self => Value::Number(*self);
    Vec<u64>: Kind::Counts, Value::Counts(counts) => Some(counts), self => Value::Counts(self.clone());
    Vec<f64>: Kind::Numbers, Value::Numbers(numbers) => Some(numbers), self => Value::Numbers(self.clone());
}
