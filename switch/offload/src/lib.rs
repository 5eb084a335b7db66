//! Placement of a program and of its entries on tiers.
//!
//! | question | module |
//! |---|---|
//! | How many entries must each table hold, given the size of a region? | [`sizing`], [`formula`] |
//! | How is a pipeline partitioned into two halves joined by a bridge header? | [`partition`] |
//! | Which entries of a table does the switch hold, if not all? | [`hot_set`] |
//! | Does a program fit on a chip, and with which performance? | [`plan`] |
//! | How long may the switch use entries that packets have added? | [`entry_leases`] |
//! | How many clusters of switches hold a region? | [`clusters`] |
//! | Which writes of the control plane go to the upper tier? | [`upper_tier_filter`] |
//! | What is the largest value of a parameter that fits? | [`sweep`] |

pub mod clusters;
pub mod entry_leases;
pub mod formula;
pub mod hot_set;
pub mod partition;
pub mod plan;
pub mod sizing;
pub mod sweep;
pub mod upper_tier_filter;
