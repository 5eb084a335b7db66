//! Which node it is, and what it runs.

use super::samples::{Values, one};
use super::seen::Seen;

pub(super) fn build(seen: &Seen<'_>) -> Values {
    vec![(vec![seen.version.terraced.clone(), seen.version.device_id.to_string()], 1.0)]
}

pub(super) fn program(seen: &Seen<'_>) -> Values {
    let program = seen.version.program.iter();
    program.map(|it| (vec![it.name.clone(), it.engine.clone(), it.cache.clone()], 1.0)).collect()
}

pub(super) fn fallback(seen: &Seen<'_>) -> Values {
    seen.version.program.iter().map(|program| (Vec::new(), f64::from(u8::from(program.falls_back)))).collect()
}

pub(super) fn tables_version(seen: &Seen<'_>) -> Values {
    seen.version.program.iter().map(|program| (Vec::new(), program.tables_version as f64)).collect()
}

pub(super) fn uptime(seen: &Seen<'_>) -> Values {
    one(seen.version.uptime_seconds.floor())
}
