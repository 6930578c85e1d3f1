//! Tests of whole connections, two ends in one process. Networks with loss and reordering are the lab's business.

mod ack_paths;
mod alternatives;
mod arbitrary;
mod attacks;
mod basics;
mod coupled;
mod drive;
mod ending;
mod exchange;
mod failure;
mod handshake;
mod injector;
mod keys;
mod migration;
mod multipath;
mod multipath_ends;
mod multipath_input;
mod multipath_rows;
mod pair;
mod paths;
mod resumption;
mod schedulers;
mod single;
mod wrong_handshake;
mod wrong_input;
