//! Engines of the cache wing: flow caches before native code and before the reference engine.
//!
//! | cache | module | workers |
//! |---|---|---|
//! | rewrites before native code | `rewrites.rs` | share tables; each has its own rewrites |
//! | rewrites before the reference engine, without native code | `rewrites.rs` | take turns |
//! | rewrites in the kernel, before either of them | `xdp/` | take turns |
//! | model of a SmartNIC's cache before the reference engine | `model.rs` | take turns |
//!
//! `plan.rs` defines the configuration of a cache. `explain.rs` explains which parts of a packet's
//! path a cache would store.

mod explain;
mod factory;
mod model;
mod plan;
mod rewrites;
mod wrapped;
mod xdp;

pub use explain::document;
pub use plan::CachePlan;
pub use xdp::{HookChoice, XdpPlan};

use flowcache::admission::SlowPathBudget;
use flowcache::pacer::MinSlowPathShare;
use flowcache::{SegmentCacheConfig, SegmentCacheKind};
use interp::Config;
use io::xdp::XdpMode;
use node::config::{CacheKind, CacheSetting, KernelHook, XdpAttachMode};
use node::engine::SharedEngineFactory;
use node::explain::CacheInput;
use node::explain::offload::{OffloadError, OffloadReport};
use node::wings::CacheWing;
use std::sync::Arc;

/// Default number of entries of a cache in user space.
const ENTRIES: usize = 8_000;

/// Cache wing, for the composition of a binary.
pub struct CacheEngines;

impl CacheWing for CacheEngines {
    /// Returns the factory of engines with a cache of this kind: in the kernel for `xdp`, otherwise
    /// in user space.
    fn cache_factory(&self, setting: &CacheSetting, kind: CacheKind) -> SharedEngineFactory {
        let plan = plan(setting, kind);
        if kind != CacheKind::Xdp {
            return Arc::new(plan);
        }
        let flows = u32::try_from(plan.cache.max_segments).unwrap_or(u32::MAX);
        let mode = match setting.attach {
            XdpAttachMode::Native => XdpMode::Native,
            XdpAttachMode::Generic => XdpMode::Generic,
        };
        let hook = match setting.hook {
            KernelHook::Auto => HookChoice::Auto,
            KernelHook::Xdp => HookChoice::Xdp,
            KernelHook::Tc => HookChoice::Tc,
        };
        Arc::new(XdpPlan::new(flows).with_cache(plan).with_mode(mode).with_hook(hook))
    }

    fn explain_offload(
        &self,
        input: &CacheInput<'_>,
        settings: &Config,
        now: u64,
    ) -> Result<OffloadReport, OffloadError> {
        explain::explain(input, settings, now)
    }
}

/// Returns the configuration of a cache of this kind from its settings in `node.toml`.
fn plan(setting: &CacheSetting, kind: CacheKind) -> CachePlan {
    let CacheSetting {
        tables,
        max_entries,
        idle_timeout_ms,
        slow_path_max_pps,
        slow_path_min_cpu_percent,
        tenant_field,
        ..
    } = setting;
    let default_entries = if kind == CacheKind::Xdp { XdpPlan::FLOWS as usize } else { ENTRIES };
    let tables = tables.unwrap_or(4);
    let min_share = slow_path_min_cpu_percent.map(|percent| MinSlowPathShare { percent });
    // Pacing needs a budget. Without a configured one, this rate exceeds any core.
    let slow_path_max_pps = slow_path_max_pps.or(min_share.map(|_| 1_000_000_000));
    let cache = SegmentCacheConfig {
        kind: match kind {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp | CacheKind::Exact => SegmentCacheKind::Exact,
            CacheKind::Megaflow => SegmentCacheKind::Megaflow,
            CacheKind::SubTraversal => SegmentCacheKind::SubTraversal { tables },
            CacheKind::Adaptive => SegmentCacheKind::Adaptive { tables },
        },
        max_segments: max_entries.unwrap_or(default_entries),
        idle_ns: idle_timeout_ms.map(|ms| ms.saturating_mul(1_000_000)),
        slow_path: slow_path_max_pps.map(SlowPathBudget::per_second),
        ..SegmentCacheConfig::default()
    };
    CachePlan {
        cache,
        min_slow_path_share: min_share,
        is_rewrite_cache: !kind.is_model(),
        tenant: tenant_field.clone(),
    }
}
