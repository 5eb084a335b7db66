//! Evaluation order: compares random programs full of side effects with a literal evaluator of the
//! specification.
//!
//! This module answers one question: *does a compiled program evaluate expressions in the order
//! that the P4-16 specification defines?* A [`tree::Program`] is generated from a seed ([`make`]):
//! functions, actions, a control, tables and a parser state. Their arguments, indices,
//! initialisers, conditions and keys call each other, with aliases, named arguments, early returns,
//! exits, header stacks and unions. It is printed as P4 ([`print`]) and compiled. It is also
//! evaluated as a tree ([`evaluate`]), sentence by sentence of the specification, on plain values
//! and without the compiler. Both must agree for each packet on each engine ([`compare`]).
//!
//! A wrong reading of the specification ([`evaluate::WrongReading`]) is an evaluator as well. The
//! number of packets for which it differs from the correct one shows how much of the comparison
//! depends on the order. A harness that compares too little fails.

pub mod calls;
pub mod compare;
pub mod evaluate;
pub mod make;
pub mod make_code;
pub mod print;
pub mod shrink;
pub mod tree;
pub mod value;
