//! Native code beside the interpreter: single constructs, whole programs, and how packets pass the stages.

mod conditions;
mod copies;
mod gateway;
mod hashes;
mod in_place;
mod onward;
mod records;
mod shared_code;
mod traces;
