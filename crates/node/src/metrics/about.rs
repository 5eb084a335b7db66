//! Metrics about the identity of the node and its program.

use super::samples::{ValueSamples, one};
use super::scrape::ScrapeSnapshot;

pub(super) fn build(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    vec![(vec![seen.version.terraced.clone(), seen.version.device_id.to_string()], 1.0)]
}

pub(super) fn program(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let program = seen.version.program.iter();
    program.map(|it| (vec![it.name.clone(), it.engine.clone(), it.cache.clone()], 1.0)).collect()
}

pub(super) fn fallback(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    seen.version.program.iter().map(|program| (Vec::new(), f64::from(u8::from(program.falls_back)))).collect()
}

pub(super) fn tables_version(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    seen.version.program.iter().map(|program| (Vec::new(), program.tables_version as f64)).collect()
}

pub(super) fn uptime(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.version.uptime_seconds.floor())
}
