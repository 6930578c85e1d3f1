//! Sessions over real connections: two of them, or one and a peer that breaks the rules.

mod exchange;
mod pair;
