//! Which part of a program, and which of its entries, is on which tier.
//!
//! | what | where |
//! |---|---|
//! | how many entries each table must hold, in terms of what a region has | [`sizing`], [`formula`] |
//! | a pipeline in two, with a bridge header between | [`cut`] |
//! | the entries of a table that are on the switch, where it has room for a few | [`hot`] |
//! | does it fit, how, and what comes of it | [`plan`] |
//! | how many clusters of switches hold a region | [`clusters`] |
//! | what of the control plane's writes the upper tier gets | [`share`] |
//! | how far a parameter can go | [`sweep`] |

pub mod clusters;
pub mod cut;
pub mod formula;
pub mod hot;
pub mod plan;
pub mod share;
pub mod sizing;
pub mod sweep;
