//! What is known of a program before it is cut into stages: its graph, its headers, what packets carry, what is certain where.

pub mod cells;
pub mod constants;
pub mod copies;
pub mod facts;
pub mod flow;
pub mod headers;
pub mod node;
pub mod order;
pub mod redundant;
pub mod shared;
pub mod tiling;
pub mod validity;
