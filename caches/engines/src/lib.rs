//! The cache wing's engines: flow caches in front of native code and of the reference engine.
//!
//! | what | where | its workers |
//! |---|---|---|
//! | rewrites of bytes in front of native code | `rewrites.rs` | share tables; each has rewrites of its own |
//! | the same in front of the reference engine, where native code does not take a program | `rewrites.rs` | take turns |
//! | the same in the kernel, in front of those | `xdp/` | take turns |
//! | the model of a SmartNIC's cache in front of the reference engine | `model.rs` | take turns |
//!
//! `plan.rs` says how a cache is made, `explain.rs` what it would keep of a packet.

mod explain;
mod factory;
mod model;
mod plan;
mod rewrites;
mod wrapped;
mod xdp;

pub use explain::document;
pub use plan::CachePlan;
pub use xdp::XdpPlan;

use flowcache::admission::Budget;
use flowcache::pace::Spare;
use flowcache::{CacheConfig, Kind};
use interp::Config;
use io::xdp::Mode;
use node::config::{Attach, CacheKind, CacheSetting};
use node::engine::Factory;
use node::explain::CacheInput;
use node::explain::offloaded::{CannotOffload, Offloaded};
use node::wings::CacheWing;
use std::sync::Arc;

/// Entries of a cache in user space, unless something else is said.
const ENTRIES: usize = 8_000;

/// The wing, for the composition of a binary.
pub struct Caches;

impl CacheWing for Caches {
    fn cache(&self, setting: &CacheSetting, kind: CacheKind) -> Factory {
        let plan = plan(setting, kind);
        if kind != CacheKind::Xdp {
            return Arc::new(plan);
        }
        let flows = u32::try_from(plan.cache.entries).unwrap_or(u32::MAX);
        let mode = match setting.attach {
            Attach::Native => Mode::Native,
            Attach::Generic => Mode::Generic,
        };
        Arc::new(XdpPlan::new(flows).with(plan).attached(mode))
    }

    fn explain(&self, input: &CacheInput<'_>, settings: &Config, now: u64) -> Result<Offloaded, CannotOffload> {
        explain::explain(input, settings, now)
    }
}

fn plan(setting: &CacheSetting, kind: CacheKind) -> CachePlan {
    let CacheSetting { tables, entries, idle_ms, slow_path_pps, slow_path_least_percent, tenant, .. } = setting;
    let usual = if kind == CacheKind::Xdp { XdpPlan::FLOWS as usize } else { ENTRIES };
    let tables = tables.unwrap_or(4);
    let spare = slow_path_least_percent.map(|least_percent| Spare { least_percent });
    // A pace without another bound has one that no core reaches.
    let slow_path_pps = slow_path_pps.or(spare.map(|_| 1_000_000_000));
    let cache = CacheConfig {
        kind: match kind {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp | CacheKind::Exact => Kind::Exact,
            CacheKind::Megaflow => Kind::Megaflow,
            CacheKind::SubTraversal => Kind::SubTraversal { tables },
            CacheKind::Adaptive => Kind::Adaptive { tables },
        },
        entries: entries.unwrap_or(usual),
        idle_ns: idle_ms.map(|ms| ms.saturating_mul(1_000_000)),
        slow_path: slow_path_pps.map(Budget::per_second),
        ..CacheConfig::default()
    };
    CachePlan { cache, spare, rewrites: !kind.is_model(), tenant: tenant.clone() }
}
