//! Shares of a processor for the threads of another process, by control groups of Linux.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Period within which a thread gets its share, in microseconds. It is short beside the time of a measurement.
const PERIOD_US: u32 = 10_000;
/// Folder of the control groups: version 2, or the folder of version 1 that has the `cpu` controller below it.
const ROOT: &str = "/sys/fs/cgroup";

/// Control groups of a process, each with a share of a processor. They are removed when this value is dropped.
pub(super) struct Shares {
    folder: PathBuf,
    groups: Vec<PathBuf>,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the version whose `cpu` controller is available below `root`.
    fn below(root: &Path) -> Option<Self> {
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_whitespace().any(|controller| controller == "cpu") {
            Some(Self::Two)
        } else {
            root.join("cpu/cpu.cfs_quota_us").exists().then_some(Self::One)
        }
    }
}

impl Shares {
    /// Creates `count` groups for the threads of `process`, each with `percent` of a processor.
    ///
    /// # Errors
    /// This host lets the user make no control groups with a `cpu` controller.
    pub(super) fn new(process: u32, count: usize, percent: u32) -> Result<Self, Error> {
        let version =
            Version::below(Path::new(ROOT)).ok_or("this host has no `cpu` controller of control groups")?;
        let base = if version == Version::One { Path::new(ROOT).join("cpu") } else { ROOT.into() };
        let folder = base.join(format!("anabranch-bench-{process}"));
        let mut shares = Self { groups: Vec::new(), folder, version };
        shares
            .create(process, count, percent)
            .map_err(|error| format!("control groups cannot be made: {error}"))?;
        Ok(shares)
    }

    fn create(&mut self, process: u32, count: usize, percent: u32) -> io::Result<()> {
        fs::create_dir(&self.folder)?;
        if self.version == Version::Two {
            // The threads of a process may be in different groups only below a group of the process itself.
            fs::write(self.folder.join("cgroup.procs"), process.to_string())?;
        }
        let quota = PERIOD_US / 100 * percent;
        for number in 0..count {
            let group = self.folder.join(number.to_string());
            fs::create_dir(&group)?;
            self.groups.push(group.clone());
            match self.version {
                Version::One => {
                    fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                    fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())?;
                }
                Version::Two => {
                    fs::write(group.join("cgroup.type"), "threaded")?;
                    fs::write(self.folder.join("cgroup.subtree_control"), "+cpu")?;
                    fs::write(group.join("cpu.max"), format!("{quota} {PERIOD_US}"))?;
                }
            }
        }
        Ok(())
    }

    /// Limits a thread to the share of the group with this number.
    pub(super) fn limit(&self, group: usize, thread: u32) -> io::Result<()> {
        let file = if self.version == Version::One { "tasks" } else { "cgroup.threads" };
        fs::write(self.groups[group].join(file), thread.to_string())
    }
}

impl Drop for Shares {
    /// Removes the groups. That succeeds once the process has ended.
    fn drop(&mut self) {
        for folder in self.groups.iter().chain([&self.folder]) {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_cpu_controller() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Version::below(root.path()), None);
        fs::write(root.path().join("cgroup.controllers"), "memory pids\n").unwrap();
        assert_eq!(Version::below(root.path()), None, "the controller is not of this version");
        fs::create_dir(root.path().join("cpu")).unwrap();
        fs::write(root.path().join("cpu/cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(Version::below(root.path()), Some(Version::One));
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        assert_eq!(Version::below(root.path()), Some(Version::Two));
    }
}
