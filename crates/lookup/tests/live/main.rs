//! Tests of the lookups that engines use: what they give, whether readers see batches as a whole, and what they cost.

mod concurrent;
mod differential;
mod packed;
mod pipeline;
mod random;
mod resources;
mod value;
mod value_set;
