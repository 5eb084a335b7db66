//! Which part of a program, and which of its entries, is on which tier.
//!
//! | what | where |
//! |---|---|
//! | how many entries each table must hold, in terms of what a region has | [`sizing`], [`formula`] |
//! | a pipeline in two, with a bridge header between | [`cut`] |
//! | does it fit, how, and what comes of it | [`plan`] |
//! | how many clusters of switches hold a region | [`clusters`] |
//! | how far a parameter can go | [`sweep`] |

pub mod clusters;
pub mod cut;
pub mod formula;
pub mod plan;
pub mod sizing;
pub mod sweep;
