//! Numbers of bytes as people write and read them: MB is 10^6, MiB is 2^20.

/// Unit prefixes with their powers of 1000 or 1024.
const PREFIXES: [(char, u32); 5] = [('k', 1), ('m', 2), ('g', 3), ('t', 4), ('p', 5)];
/// Maximum number of bytes (RFC 9000 §4.5).
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Parses a size with or without a unit: `10M` and `10MB` are ten million, `1GiB` is 2^30. The default unit
/// is one byte.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_in(text, 1)
}

/// Parses a size; a number without a unit counts `unit` bytes.
pub(crate) fn parse_in(text: &str, unit: u64) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no number of bytes; write it as 5000000, 5M or 4.5MiB");
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = factor(suffix.trim(), unit).ok_or_else(wrong)?;
    let bytes = match number.parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        // A fraction need not be exact to the byte.
        Err(_) => number.parse::<f64>().ok().map(|number| (number * factor as f64) as u64),
    };
    match bytes {
        Some(bytes) if bytes <= MAX && !number.is_empty() => Ok(bytes),
        Some(_) if !number.is_empty() => Err(format!("`{text}` is more than 2^62 - 1 bytes")),
        None if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => {
            Err(format!("`{text}` is more than 2^62 - 1 bytes"))
        }
        _ => Err(wrong()),
    }
}

/// Returns the number of bytes in the unit `suffix`, or `unit` if `suffix` is empty.
fn factor(suffix: &str, unit: u64) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    if lower.is_empty() {
        return Some(unit);
    }
    let prefix = lower.strip_suffix('b').unwrap_or(&lower);
    if prefix.is_empty() {
        return Some(1);
    }
    let (prefix, base) = prefix.strip_suffix('i').map_or((prefix, 1_000_u64), |prefix| (prefix, 1_024));
    let (_, power) = PREFIXES.iter().find(|(name, _)| prefix.chars().eq([*name]))?;
    Some(base.pow(*power))
}

/// Formats a number of bytes in decimal units, with three or more digits: `12 B`, `1.50 kB`, `100 MB`.
pub(crate) fn words(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // A value that would round to four digits is shown in the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_unless_they_say_otherwise() {
        for (text, bytes) in [
            ("0", 0),
            ("5000000", 5_000_000),
            ("10M", 10_000_000),
            ("10MB", 10_000_000),
            ("10 mb", 10_000_000),
            ("1k", 1_000),
            ("1KiB", 1_024),
            ("1Gi", 1 << 30),
            ("1GiB", 1 << 30),
            ("1.5M", 1_500_000),
            ("2.5MiB", 2_621_440),
            ("7B", 7),
            ("4611686018427387903", MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_in("100", 1_000_000), Ok(100_000_000));
        assert_eq!(parse_in("1GiB", 1_000_000), Ok(1 << 30));
        for bad in ["", "M", "-1", "1x", "1MMB", "1.2.3", "1iB", "nan", "4611686018427387904", "9999999999PB"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_have_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (99_949, "99.9 kB"),
            (999_400, "999 kB"),
            (999_600, "1.00 MB"),
            (100_000_000, "100 MB"),
            (5 << 30, "5.37 GB"),
        ] {
            assert_eq!(words(bytes), text);
        }
    }
}
