//! Tests of whole connections, two ends in one process. Networks with loss and reordering are the lab's business.

mod basics;
mod pair;
