//! Where the underlay's routes and neighbours come from.

use schemars::JsonSchema;
use serde::Deserialize;

/// Routing table of the kernel that is used without `table`: the main one.
pub(crate) const MAIN_TABLE: u32 = 254;
/// Maximum number of routes without `max_routes`.
pub(crate) const DEFAULT_MAX_ROUTES: u32 = 20_000;

/// Where the underlay's routes and neighbours come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnderlaySource {
    /// From the region file: `uplinks` of servers and remotes, `peer_mac` of uplinks.
    #[default]
    Static,
    /// From the kernel: its routes and neighbours on the host sides of uplinks. Those of the region
    /// file override them.
    Kernel,
}
