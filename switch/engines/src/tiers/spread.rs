//! [`Spread`]: flows are spread over tiers below by what a meter or register there is indexed with, so that what shares one of its elements shares a tier.

use ir::{ExternId, ExternKind};
use offload::cut::{Cut, Place, wire};
use offload::share::used;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// The widest index, in bits.
const WIDEST: u32 = 128;
/// Where the number of the stop is.
const STOP_AT: usize = 18;

/// What bridge headers carry of an object's index.
#[derive(Clone, Debug)]
pub struct Spread {
    object: ExternId,
    name: String,
    place: Place,
}

impl Spread {
    /// By a meter's or register's name, or the end of it behind a dot.
    ///
    /// # Errors
    /// There is none of that name below, or the switch does not know what it is indexed with.
    pub fn new(cut: &Cut, name: &str) -> Result<Spread, String> {
        let end = format!(".{name}");
        let named = |object: &ExternId| &*cut.lower.externs[*object].preamble.name;
        let is = |object: &ExternId| named(object) == name || named(object).ends_with(&end);
        let mut found = cut.indexed.keys().filter(|object| is(object));
        let (Some(object), None) = (found.next(), found.next()) else {
            let there: Vec<&str> = cut.indexed.keys().map(named).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(format!(
                "`spread`: no, or no single, meter or register is called `{name}`; there are: {there}"
            ));
        };
        let name = named(object).to_owned();
        match &cut.indexed[object] {
            Ok(place) if place.width > WIDEST => {
                Err(format!("`spread`: the index of {name} has more than {WIDEST} bits"))
            }
            Ok(place) => Ok(Spread { object: *object, name, place: place.clone() }),
            Err(why) => Err(format!("`spread`: the switch does not know the index of {name}: {why}")),
        }
    }

    /// A hash of what a frame with a bridge header has. `None`: behind its stop the object is not used with what was known above.
    pub fn hash(&self, seed: &impl BuildHasher, frame: &[u8]) -> Option<u64> {
        let stop = *frame.get(..wire::FIXED)?.get(STOP_AT)?;
        let is_there = self.place.stops.get(usize::from(stop)).copied().unwrap_or(false);
        let bit = |at: u32| frame.get(at as usize / 8).map(|byte| u128::from(byte >> (7 - at % 8) & 1));
        let mut bits = self.place.first..self.place.first + self.place.width;
        let value = bits.try_fold(0u128, |value, at| Some(value << 1 | bit(at)?)).filter(|_| is_there)?;
        Some(seed.hash_one(value))
    }
}

/// What a person should know where there are several tiers below.
pub fn notes(cut: &Cut, spread: Option<&Spread>) -> Vec<String> {
    let mut notes = Vec::new();
    let same = |object: &ExternId| {
        let place = |object: &ExternId| cut.indexed.get(object).and_then(|place| place.as_ref().ok());
        spread.is_some_and(|spread| spread.object == *object || place(object) == Some(&spread.place))
    };
    let kept: BTreeSet<&str> = kept_below(cut)
        .filter(|object| !same(object))
        .map(|object| &*cut.lower.externs[object].preamble.name)
        .collect();
    if !kept.is_empty() {
        let kept = kept.into_iter().collect::<Vec<_>>().join(", ");
        let mend = if spread.is_none() { "; give `spread`, the name of one that is to be shared rightly" } else { "" };
        notes.push(format!("tiers: each of the tiers below has {kept} of its own{mend}"));
    }
    if let Some(Spread { name, place, .. }) = spread {
        let missing = cut.points.iter().zip(&place.stops).filter(|(_, is_there)| !**is_there);
        notes.extend(missing.map(|(point, _)| {
            format!("tiers: flows are spread by addresses and ports, not by the index of {name}, where {}", point.why)
        }));
    }
    notes
}

/// Meters and registers that the lower half uses.
fn kept_below(cut: &Cut) -> impl Iterator<Item = ExternId> {
    used(&cut.lower).into_iter().filter(|object| {
        let kind = &cut.lower.externs[*object].kind;
        matches!(kind, ExternKind::Meter { .. } | ExternKind::DirectMeter { .. } | ExternKind::Register { .. })
    })
}
