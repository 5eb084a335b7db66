//! Tests of the lookups that engines use: results, atomicity of batches for readers, and resources.

mod concurrent;
mod differential;
mod packed;
mod pipeline;
mod random;
mod resources;
mod value;
mod value_set;
