//! Sessions over real connections: two of them, or one and a peer that breaks the rules.

mod attacks;
mod blocked;
mod by_hand;
mod exchange;
mod messages;
mod pair;
mod rules;
