//! Tests of what the control plane may write, and of what is there afterwards.

mod capacity;
mod packed;
mod pipeline;
mod refusals;
mod state;
mod text;
