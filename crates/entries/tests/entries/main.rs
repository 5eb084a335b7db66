//! Tests writes of the control plane and the state after them.

mod capacity;
mod packed;
mod pipeline;
mod refusals;
mod state;
mod text;
