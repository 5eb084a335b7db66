//! Evaluation order: random programs full of side effects, held against a direct reading of the
//! specification.
//!
//! This module answers one question: *does a compiled program do what the text of the P4-16
//! specification says, in the order in which it says so?* A [`tree::Program`] is made from a seed
//! ([`make`]): functions, actions, a control, tables and a parser state whose arguments, indices,
//! initialisers, conditions and keys call each other, with aliases, named arguments, early
//! returns, exits, header stacks and unions. It is printed as P4 ([`print`]) and compiled; and it
//! is evaluated as a tree ([`evaluate`]), sentence by sentence of the specification, on plain
//! values, with nothing of the compiler's. Both must agree on each packet, on each engine
//! ([`compare`]).
//!
//! A wrong reading of the specification ([`evaluate::Wrong`]) is an evaluator as well. How often
//! it gives other packets than the right one says how much of the comparison depends on the order:
//! a harness that compares too little fails.

pub mod calls;
pub mod compare;
pub mod evaluate;
pub mod make;
pub mod make_code;
pub mod print;
pub mod shrink;
pub mod tree;
pub mod value;
