//! Static table (RFC 9204, Appendix A).

/// Match of a field line in the static table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// Index of the line that matches in name and value.
    Line(u64),
    /// Index of the first line whose name matches.
    Name(u64),
    /// No line matches.
    None,
}

/// Returns the line at this index.
#[inline]
pub(super) fn get(index: u64) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = LINES.get(usize::try_from(index).ok()?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// Finds a field line. Compares `name` with only one name of the table, and `value` with the values of all
/// lines of that name.
#[inline]
pub(super) fn find(name: &[u8], value: &[u8]) -> Match {
    if name.is_empty() {
        return Match::None;
    }
    let first = FIRST[slot(name)];
    if first == NONE || LINES[usize::from(first)].0.as_bytes() != name {
        return Match::None;
    }
    let mut index = first;
    while index != NONE {
        if LINES[usize::from(index)].1.as_bytes() == value {
            return Match::Line(u64::from(index));
        }
        index = NEXT[usize::from(index)];
    }
    Match::Name(u64::from(first))
}

const COUNT: usize = 99;
const SLOTS: usize = 128;
/// Marker for the absence of an index.
const NONE: u8 = u8::MAX;

/// Index of the first line for the name that hashes to a slot. The hash is perfect: no two names share a
/// slot.
static FIRST: [u8; SLOTS] = first();
/// Index of the next line with the same name, by index.
static NEXT: [u8; COUNT] = next();

/// Returns the slot of a non-empty name. The factors were found by trial; `first` verifies them.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    let (middle, late, last) = (name[len / 2], name[len * 7 / 8], name[len - 1]);
    (len * 3 + middle as usize * 40 + last as usize * 73 + late as usize * 122) % SLOTS
}

const fn first() -> [u8; SLOTS] {
    let mut table = [NONE; SLOTS];
    let mut index = 0;
    while index < COUNT {
        let name = LINES[index].0.as_bytes();
        let slot = slot(name);
        if table[slot] == NONE {
            table[slot] = index as u8;
        }
        assert!(same(name, LINES[table[slot] as usize].0.as_bytes()), "two names share a slot");
        index += 1;
    }
    table
}

const fn next() -> [u8; COUNT] {
    let mut table = [NONE; COUNT];
    let mut index = 0;
    while index < COUNT {
        let mut later = COUNT - 1;
        while later > index {
            if same(LINES[index].0.as_bytes(), LINES[later].0.as_bytes()) {
                table[index] = later as u8;
            }
            later -= 1;
        }
        index += 1;
    }
    table
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[rustfmt::skip]
const LINES: [(&str, &str); COUNT] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found() {
        for (index, (name, value)) in LINES.iter().enumerate() {
            assert_eq!(find(name.as_bytes(), value.as_bytes()), Match::Line(index as u64), "{name}: {value}");
            let Match::Name(first) = find(name.as_bytes(), b"another value") else { panic!("{name}") };
            assert_eq!(LINES.iter().position(|line| line.0 == *name), Some(first as usize));
        }
        assert_eq!(get(98), Some((&b"x-frame-options"[..], &b"sameorigin"[..])));
        assert_eq!(get(99), None);
        assert_eq!(get(u64::MAX), None);
    }

    #[test]
    fn other_names_are_not_found() {
        for name in ["", "x", ":statu", ":statuss", "Content-Type", "content-typf", "x-request-id"] {
            assert_eq!(find(name.as_bytes(), b""), Match::None, "{name}");
        }
    }
}
