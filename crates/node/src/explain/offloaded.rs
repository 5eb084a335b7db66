//! [`Offloaded`]: what of a packet's way a flow cache keeps, and why not the rest, by a node's tables.

use super::{CannotExplain, Present, Teller, told::Part};
use crate::device::Node;
use crate::engine::Parts;
use crate::reconcile;
use flowcache::explain::{Key, Stretch};
use flowcache::{CacheConfig, Explanation, FlowCache};
use interp::Config;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most entries of a program's tables: they are copied for the answer.
pub const MAX_ENTRIES: usize = 1_000_000;

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Offloaded {
    /// For programs: [`document`].
    pub document: Value,
    /// For people.
    pub text: String,
}

/// What is said of a packet's way, as a document.
pub fn document(told: &Explanation) -> Value {
    let key = |key: &Key| json!({ "name": key.name, "value": key.value, "mask": key.mask, "bits": key.bits.0, "width": key.bits.1 });
    let stretch = |stretch: &Stretch| {
        json!({
            "table": stretch.table,
            "keys": stretch.keys.iter().map(key).collect::<Vec<_>>(),
            "entry": stretch.entry,
            "live": stretch.live,
            "refused": stretch.refused.map(|reason| reason.name()),
        })
    };
    json!({
        "refused": told.refused().map(|reason| reason.name()),
        "whole": told.whole.is_some(),
        "pieces": told.pieces,
        "stretches": told.stretches.iter().map(stretch).collect::<Vec<_>>(),
    })
}

impl Node {
    /// What of a packet's way a flow cache keeps, before the program or, if that is divided among tiers, before its lower half. `None`: the packet does not come to
    /// one here, as the switch serves it, or the tiers below are in another process. Tables are copied for it; registers are as at first.
    ///
    /// # Errors
    /// See [`CannotExplain`].
    pub fn offloaded(&self, bytes: &[u8], port: u32) -> Result<Option<Offloaded>, CannotExplain> {
        let Present { parts, .. } = self.present().ok_or(CannotExplain::NoProgram)?;
        let now = io::now();
        match &parts {
            Parts::Whole(part) => tell(part, &self.settings, bytes, port, now).map(Some),
            Parts::Halves(halves) => {
                let Some(below) = &halves.below else { return Ok(None) };
                if halves.up.contains(&port) {
                    return tell(below, &self.settings, bytes, port, now).map(Some);
                }
                let mut teller = Teller::new(&parts, &self.settings).ok_or(CannotExplain::Bug)?;
                let down = teller.frame_down(halves, bytes, port, now);
                down.map(|frame| tell(below, &self.settings, &frame, halves.down_port, now)).transpose()
            }
        }
    }
}

fn tell(part: &Part, settings: &Config, bytes: &[u8], port: u32, now: u64) -> Result<Offloaded, CannotExplain> {
    let entries = part.pipeline.tables.keys().map(|table| part.state.entries(table).count()).sum::<usize>();
    if entries > MAX_ENTRIES {
        return Err(CannotExplain::TooMuch(entries));
    }
    let cache = CacheConfig::default();
    let mut cache = FlowCache::new(part.pipeline.clone(), settings.clone(), cache).map_err(|_| CannotExplain::Bug)?;
    for batch in reconcile::writes(&part.state).map_err(|_| CannotExplain::Bug)? {
        // The program's own entries are there already.
        batch.apply_what_fits(|batch| cache.write(batch));
    }
    let (_, told) = cache.explain(bytes, port, now);
    Ok(Offloaded { document: document(&told), text: told.to_string() })
}
