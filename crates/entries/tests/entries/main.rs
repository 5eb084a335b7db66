//! Tests writes of the control plane and the state after them.

mod capacity;
mod key_filter;
mod packed;
mod pages;
mod pipeline;
mod refusals;
mod state;
mod text;
