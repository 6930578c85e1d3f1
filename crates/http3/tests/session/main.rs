//! Sessions over real connections: two of them, or one and a peer that breaks the rules.

mod by_hand;
mod exchange;
mod pair;
mod rules;
