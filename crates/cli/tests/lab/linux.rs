//! Tests of Linux in virtual time that need no kernel: a machine without a kernel, a build that is
//! interrupted and continued, and a kernel that does not boot. The tools of the build are scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{PLAN, TestDir, names, stderr};

/// Maximum time that a test waits for a condition.
const PATIENCE: Duration = Duration::from_secs(120);

/// Variants of the plan that need the kernel.
const LINUX: &str = r#"
[[variant]]
name = "tcp"
set = { external = "linux/tcp-cubic", paths = [0], multipath = false }

[[variant]]
name = "mptcp"
set = { external = "linux/mptcp" }
"#;

/// A directory with the plan, an empty cache, and the tools of the build.
struct Machine(TestDir);

impl Machine {
    fn new() -> Self {
        let place = TestDir::new(&format!("{PLAN}{LINUX}"));
        fs::create_dir(place.path("tools")).unwrap();
        let machine = Self(place);
        for name in ["gcc", "ld", "flex", "bison", "bc", "xz"] {
            machine.tool(name, "");
        }
        machine.tool("tar", "printf 'VERSION = 6\\nPATCHLEVEL = 12\\nSUBLEVEL = 99\\n' > Makefile\n");
        machine.tool("patch", "cat > /dev/null\n");
        fs::write(machine.0.path("linux.tar"), "").unwrap();
        machine
    }

    /// Writes a tool that records its name and its last argument, and then runs `script`.
    fn tool(&self, name: &str, script: &str) {
        let file = self.0.path("tools").join(name);
        let log = self.0.path("calls");
        let note = format!("for last; do :; done\necho {name} \"${{last##*/}}\" >> {}\n", log.display());
        fs::write(&file, format!("#!/bin/sh\n{note}{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        let path = format!("{}:/usr/bin:/bin", self.0.path("tools").display());
        command.env("PATH", path).env("XDG_CACHE_HOME", self.0.path("cache"));
        command
    }

    fn lab(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Returns the calls of the build's tools.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs the whole plan, and returns the notes and the names of the variants in the results.
    fn sweep(&self) -> (String, Vec<String>) {
        let output =
            self.lab(&["run", "plan.toml", "--points", "3", "--repetitions", "1", "--out", "results"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let rows = fs::read_to_string(self.0.path("results/runs.csv")).unwrap();
        let variants = rows.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned());
        (stderr(&output), variants.collect())
    }
}

const BUILD: [&str; 4] = ["linux", "build", "--source", "linux.tar"];

#[test]
fn without_a_kernel_the_check_is_one_line_and_a_sweep_names_what_it_leaves_out() {
    let machine = Machine::new();
    let output = machine.lab(&["linux", "check"]);
    let line = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}");
    assert_eq!(line, "anabranch: there is no kernel; `anabranch lab linux build` makes it\n");

    let (notes, variants) = machine.sweep();
    let said = notes.lines().filter(|line| line.starts_with("left out, ")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].contains("kernel") && said[0].ends_with(": tcp, mptcp"), "{notes}");
    assert_eq!(variants, ["both", "quic-path-0"]);

    let output = machine.lab(&["run", "plan.toml", "--variants", "tcp", "--out", "other"]);
    let last = stderr(&output).lines().next_back().unwrap().to_owned();
    assert_eq!(output.status.code(), Some(2), "{last}");
    assert!(last.contains("no variant is left to run; `anabranch lab linux build` makes it"), "{last}");
    assert!(!names(&machine.0.path("")).contains(&"other".to_owned()), "nothing has begun");
}

/// Waits until `file` exists.
fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < PATIENCE, "{} does not come", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The second build repeats neither the unpacking, nor the patch, nor the configuration, and continues to
/// compile.
#[test]
fn an_interrupted_build_of_the_kernel_goes_on_and_a_kernel_that_does_not_boot_is_left_out() {
    let machine = Machine::new();
    let compiling = machine.0.path("compiling");
    let slow = format!(
        "case \"$*\" in *allnoconfig*) exit 0;; esac\ntouch {}\nwhile kill -0 $PPID 2> /dev/null; do sleep 0.02; done\n",
        compiling.display()
    );
    machine.tool("make", &slow);
    let mut build = machine.command(&BUILD).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&compiling);
    build.kill().unwrap();
    assert_eq!(build.wait().unwrap().code(), None);
    let before = machine.calls();
    assert_eq!(before.len(), 4, "{before:?}");
    assert_eq!(before[..3], ["tar tree", "patch --reject-file=-", "make allnoconfig"]);
    assert!(before[3].starts_with("make -j"), "{before:?}");

    let kernel = "#!/bin/sh\\necho 'Kernel panic - not syncing: not this time'\\n";
    machine.tool("make", &format!("printf \"{kernel}\" > linux\nchmod 755 linux\n"));
    let output = machine.lab(&BUILD);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("Linux 6.12.99-") && said.trim_end().ends_with("/kernel"), "{said}");
    assert_eq!(machine.calls()[..4], before);
    assert_eq!(machine.calls()[4..], before[3..], "the compiler alone");
    let again = machine.lab(&BUILD);
    assert!(String::from_utf8(again.stdout).unwrap().contains(" is there: "));
    assert_eq!(machine.calls().len(), 5);

    // The kernel's failure is reported once, not for each of its runs.
    let (notes, variants) = machine.sweep();
    let said = notes.lines().filter(|line| line.starts_with("left out, ")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].ends_with("not this time): tcp, mptcp"), "{notes}");
    assert_eq!(variants, ["both", "quic-path-0"]);
}
