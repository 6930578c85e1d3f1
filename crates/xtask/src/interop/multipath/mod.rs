//! `cargo xtask interop --multipath`: both endpoints follow a plan (`peers/README.md`) that opens and closes
//! paths and sets their status during a transfer. Each path has a link in user space, whose traffic is
//! recorded.

mod case;
mod play;
mod traffic;

use self::case::Case;
use super::chapter::Subject;

/// Chapter on multipath.
pub(super) const SUBJECT: Subject<Case> =
    Subject { name: "Multipath", preface: PREFACE, peers: &["noq"], cases: case::all, play: play::play };

const PREFACE: &str = "\
Written by `cargo xtask interop --multipath` (RFC 10069; both ends want four paths unless the case says otherwise). The client
reaches the server over a link of its own for each path, 127.0.0.1, 127.0.0.2 and so on, with 50 Mbit/s and 20 ms unless said
otherwise. Content says where each of its words belongs and is checked with SHA-256 at both ends; the links show which path carries
how much and when, so that a path which is said to be used, or not to be used any longer, is seen to be.

Where noq 1.4.0 differs, and what its program does about it:

- A path that is opened as a backup (`open_path` with `PathStatus::Backup`) is not announced as one (RFC 10069 §3.3): the flag that
  would have PATH_STATUS_BACKUP sent beside the PATH_CHALLENGE is cleared just before it is looked at. The program sets the status
  once the path is open.
- What the peer says of a path changes nothing by itself; the application has to set the same status (§3.3 leaves that open). The
  program does, but for a path whose status its own plan has set.
- A dead path is given up only after a path's idle timeout, which is off by default; what it had carried waits so long. The program
  sets one second in the cases of death, where RFC 10069 advises to copy what is in flight to other paths after a probe timeout.
- It acknowledges on any path (allowed: RFC 10069 §4), so that a path which only receives may say nothing, and its peer does not learn that
  a NAT has changed its port. The program keeps paths alive every 100 ms in the cases of rebinding.
- No HTTP/3 crate is made for it.
";
