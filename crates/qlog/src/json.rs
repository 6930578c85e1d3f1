//! Writer of JSON objects with fields in a fixed order. It uses no tree and no map, so equal events give
//! equal bytes.

use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Object that is being written. The function that created it writes the closing brace.
pub(crate) struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

/// Array that is being written. The function that created it writes the closing bracket.
pub(crate) struct Array<'a> {
    out: &'a mut String,
    empty: bool,
}

/// Appends a complete object.
pub(crate) fn object(out: &mut String, fill: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    fill(&mut Object { out, empty: true });
    out.push('}');
}

impl Object<'_> {
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        string(self.out, value);
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        display(self.out, value);
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// Writes nanoseconds as milliseconds, exactly and without trailing zeros.
    pub(crate) fn millis(&mut self, key: &str, nanos: u128) {
        self.key(key);
        display(self.out, format_args!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000));
        self.out.truncate(self.out.trim_end_matches('0').trim_end_matches('.').len());
    }

    pub(crate) fn duration(&mut self, key: &str, value: Duration) {
        self.millis(key, value.as_nanos());
    }

    /// Writes a `hexstring`: two lowercase digits for each byte.
    pub(crate) fn hex(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        hex(self.out, bytes);
    }

    pub(crate) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        object(self.out, fill);
    }

    pub(crate) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Array<'_>)) {
        self.key(key);
        array(self.out, fill);
    }

    fn key(&mut self, key: &str) {
        separate(self.out, &mut self.empty);
        string(self.out, key);
        self.out.push(':');
    }
}

impl Array<'_> {
    pub(crate) fn text(&mut self, value: &str) {
        separate(self.out, &mut self.empty);
        string(self.out, value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        separate(self.out, &mut self.empty);
        display(self.out, value);
    }

    pub(crate) fn hex(&mut self, bytes: &[u8]) {
        separate(self.out, &mut self.empty);
        hex(self.out, bytes);
    }

    pub(crate) fn object(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        separate(self.out, &mut self.empty);
        object(self.out, fill);
    }

    pub(crate) fn array(&mut self, fill: impl FnOnce(&mut Array<'_>)) {
        separate(self.out, &mut self.empty);
        array(self.out, fill);
    }
}

fn array(out: &mut String, fill: impl FnOnce(&mut Array<'_>)) {
    out.push('[');
    fill(&mut Array { out, empty: true });
    out.push(']');
}

fn separate(out: &mut String, empty: &mut bool) {
    if !core::mem::replace(empty, false) {
        out.push(',');
    }
}

fn display(out: &mut String, value: impl Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

fn hex(out: &mut String, bytes: &[u8]) {
    out.push('"');
    bytes.iter().for_each(|byte| display(out, format_args!("{byte:02x}")));
    out.push('"');
}

/// Writes a string. Quotation marks, backslashes and control characters are escaped (RFC 8259 §7).
fn string(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => display(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Object<'_>)) -> String {
        let mut out = String::new();
        object(&mut out, fill);
        out
    }

    #[test]
    fn fields_nest_and_are_separated() {
        let json = written(|o| {
            o.number("n", u64::MAX);
            o.object("o", |_| {});
            o.array("a", |a| {
                a.number(1);
                a.text("x");
                a.object(|o| o.flag("t", true));
                a.array(|a| a.hex(&[0, 0xff]));
            });
        });
        assert_eq!(json, r#"{"n":18446744073709551615,"o":{},"a":[1,"x",{"t":true},["00ff"]]}"#);
    }

    #[test]
    fn text_is_escaped() {
        let hostile = "\"\\\n\u{1e}é\u{0}";
        let json = written(|o| o.text("k", hostile));
        assert!(!json.contains('\u{1e}'), "a record separator inside a record");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["k"], hostile);
    }

    #[test]
    fn milliseconds_are_exact() {
        for (nanos, text) in
            [(0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (10_000_000, "10"), (100, "0.0001")]
        {
            assert_eq!(written(|o| o.millis("t", nanos)), format!("{{\"t\":{text}}}"));
        }
    }
}
