//! Analyses of a program before it is split into stages: flow graph, headers, frame slots,
//! constants.

pub mod constants;
pub mod copy_coalescing;
pub mod facts;
pub mod flow;
pub mod frame_slots;
pub mod header_adjacency;
pub mod headers;
pub mod held_ports;
pub mod imported_values;
pub mod miss_regions;
pub mod node;
pub mod order;
pub mod path_clones;
pub mod rare_paths;
pub mod redundant_stores;
pub mod validity;
pub mod worklist;
