//! Tests of the IR through its public interface.

mod documentation;
mod eval;
mod execute;
mod generate;
mod generate_body;
mod p4info;
mod passes;
mod refused;
mod text;
