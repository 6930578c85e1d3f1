//! Processor time and resident memory of another process.

use crate::Error;

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// User and system time since its start, in seconds.
    pub(super) cpu: f64,
    /// Resident memory, in bytes.
    pub(super) resident: f64,
}

impl Usage {
    /// Reads the usage of the process with this ID.
    pub(super) fn of(process: u32) -> Result<Self, Error> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}"));
        // SAFETY: the call has no pointers.
        let (ticks, page) = unsafe { (libc::sysconf(libc::_SC_CLK_TCK), libc::sysconf(libc::_SC_PAGESIZE)) };
        Self::parse(&read("stat")?, &read("statm")?, ticks as f64, page as f64)
    }

    /// Parses `stat` and `statm` of procfs. `ticks` are those of a second, `page` is the size of a page in bytes.
    fn parse(stat: &str, statm: &str, ticks: f64, page: f64) -> Result<Self, Error> {
        // The name of the program, in parentheses, may contain anything.
        let after_name = stat.rsplit_once(") ").ok_or("`stat` without a name")?.1;
        let number =
            |text: Option<&str>| -> Result<f64, Error> { Ok(text.ok_or("a field is missing")?.parse()?) };
        // Fields 14 and 15 of `stat`, the third of which is the first one after the name.
        let mut times = after_name.split(' ').skip(11);
        let cpu = (number(times.next())? + number(times.next())?) / ticks;
        Ok(Self { cpu, resident: number(statm.split(' ').nth(1))? * page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_parsed() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 5 6 7";
        let usage = Usage::parse(stat, "900 12 3 4 0 5 0", 100.0, 4_096.0).unwrap();
        assert_eq!((usage.cpu, usage.resident), (3.0, 49_152.0));
        assert!(Usage::parse("7", "1 2", 100.0, 4_096.0).is_err());
        let own = Usage::of(std::process::id()).unwrap();
        assert!(own.resident > 1e6, "{own:?}");
    }
}
