//! Compiles tenants' intent, a region file in YAML, to table entries of the gateway program.
//!
//! The crate checks a region file as a whole. It refers to the gateway's tables by name
//! (programs/gateway/TABLES.md) and does not depend on packets or engines. It only produces
//! entries, each with its source line in the file; the caller applies them.

mod abridged;
mod addresses;
mod check;
mod edit;
mod entries;
mod fields;
mod host_side;
mod host_uplinks;
mod internet;
mod ipv6_internet;
mod item_list;
mod load;
mod model;
mod nat64;
mod plain;
mod prefix_map;
mod problem;
mod sections;
mod security_groups;
mod services;
mod shift;
mod shift_fields;
mod spanned;
mod syntax;
mod underlay_source;
mod values;
mod vpc;
mod yaml;

pub use addresses::{
    UNUSABLE_RANGES, UnusableRange, enclosing_unusable_range, overlapping_unusable_range, unusable_range_of,
};
pub use check::{FlatRoute, MAX_PEERINGS, MAX_VNI, ResolvedRegion, RouteScope, RouteTarget, check};
pub use edit::{Document, Edit};
pub use entries::{
    Changes, DEFAULT_MTU, EntryKey, EntrySource, GatewayApi, GatewayEntries, IdAssignments, KernelSources,
    MachineNumbers, NotAGateway, PathMtus, PortStates, RegionPart, TransitPath, changes, defaults, diff, entries,
    kernel_changes, source_of, visit,
};
pub use fields::NameText;
pub use host_side::{HostSide, PuntRates};
pub use host_uplinks::HostInterface;
pub use internet::{
    ADDRESS_PORTS, BLOCK_PORTS, ElasticAddress, FIRST_NAT_PORT, ForwardProtocol, Internet, Nat, NatTimeouts,
    PortForward,
};
pub use ipv6_internet::{Inbound, Ipv6Internet, Npt, PrefixTranslation};
pub use item_list::ItemList;
pub use load::{MAX_FILE_BYTES, RegionLoadError, load, parse, read, schema};
pub use model::*;
pub use nat64::{NAT64_FIRST_SUBSCRIBER, Nat64};
pub use problem::{MAX_PROBLEMS, Problem, Problems};
pub use security_groups::{GroupDirection, GroupRule, SecurityGroup};
pub use services::{Affinity, Backend, BackendState, Service};
pub use spanned::*;
pub use underlay_source::UnderlaySource;
pub use values::*;
