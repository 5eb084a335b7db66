//! Tests of the IR through its public interface.

mod eval;
mod execute;
mod generate;
mod passes;
mod refused;
mod text;
