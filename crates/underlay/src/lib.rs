//! The paths of the underlay: which next hops packets use while links, neighbours and routes
//! change.
//!
//! This crate answers one question: *by which paths do packets leave now?* It is pure logic: it
//! gets reports and a time, and returns what should be in the tables. `node::underlay` asks the
//! kernel and writes the tables.
//!
//! | item | file |
//! |---|---|
//! | [`assign_slots`]: the slots of an ECMP group of the region file | `slots.rs` |
//! | [`LinkDamping`]: when a link that was down is used again | `damping.rs` |
//! | [`Messages`]: the kernel's messages about neighbours and routes | `message.rs` |
//! | [`KernelTables`]: the kernel's neighbours and routes | `kernel_tables.rs` |
//! | [`Buckets`]: resilient buckets of a group of the kernel's routes | `buckets.rs` |
//! | [`PathPlanner`]: the entries by which packets take the kernel's routes | `planner.rs` |

mod buckets;
mod damping;
mod kernel_tables;
mod message;
mod planner;
mod slots;

pub use buckets::Buckets;
pub use damping::{DampingTimes, LinkDamping, LinkUse};
pub use kernel_tables::{FoundRoute, HopKey, KernelTables, RouteTables};
pub use message::{
    DumpKind, KernelMessage, Messages, Neighbour, NextHopObject, ReceivedMessage, Route, RouteAction, RouteHop,
    dump_request, resolve_request,
};
pub use planner::{FIRST_KERNEL_HOP, HopAction, KernelUplink, PathPlanner, PlannedHops, PlannedRoute, PlannedRoutes};
pub use slots::assign_slots;
