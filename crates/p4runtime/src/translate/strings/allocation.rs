//! [`Pending`]: strings that get values during the translation of a request's updates.
//!
//! A new string gets the value after the largest one ever allocated or, when those are exhausted,
//! the smallest free one. 0 is used last, because programs often give it the meaning "none".
//!
//! Unused strings are released when no value is free, or when the number of strings is far beyond
//! the number in use at the last release. Memory is thus bounded by the stored entries, and a
//! string that is deleted and written again mostly keeps its value.

use super::{StringSpace, Strings};
use crate::translate::scalar::ones;
use crate::{Code, P4RuntimeError};
use entries::{ControlState, SdnStringUpdate, StoredAction, StoredActionRef, action_layout, big_from_words};
use ir::{Pipeline, TableId};
use num_bigint::BigUint;
use num_traits::One;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of unused strings of a space kept before a release, besides the number in use at the last
/// release.
const SPARE: usize = 4096;

/// Strings named by the updates of a request, in addition to those of the state.
#[derive(Debug, Default)]
pub struct Pending {
    values: BTreeMap<(Arc<str>, Arc<str>), BigUint>,
    strings: BTreeMap<(Arc<str>, BigUint), Arc<str>>,
    released: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Values that updates of this request use, which are not in the state yet.
    used: BTreeSet<(Arc<str>, BigUint)>,
    /// Strings named by the update in translation.
    fresh: Vec<SdnStringUpdate>,
}

impl Pending {
    /// Returns the value of a string.
    pub fn value(&self, space: &StringSpace, state: &ControlState, string: &str) -> Option<BigUint> {
        let of = (space.key.clone(), Arc::from(string));
        if let Some(value) = self.values.get(&of) {
            return Some(value.clone());
        }
        let known = state.sdn_strings().space(&space.key).and_then(|space| space.value(string)).cloned();
        known.filter(|_| !self.released.contains(&of))
    }

    /// Returns the string of a value.
    pub fn string(&self, space: &StringSpace, state: &ControlState, value: &BigUint) -> Option<Arc<str>> {
        if let Some(string) = self.strings.get(&(space.key.clone(), value.clone())) {
            return Some(string.clone());
        }
        let known = state.sdn_strings().space(&space.key).and_then(|space| space.string(value)).cloned();
        known.filter(|string| !self.released.contains(&(space.key.clone(), string.clone())))
    }

    /// Records that an update of the request uses a value.
    pub fn record_use(&mut self, space: &StringSpace, value: &BigUint) {
        self.used.insert((space.key.clone(), value.clone()));
    }

    /// Removes and returns the strings named by the last update, if it was valid; otherwise reverts
    /// them.
    pub fn take_new_strings(&mut self, good: bool) -> Vec<SdnStringUpdate> {
        let fresh = std::mem::take(&mut self.fresh);
        if good {
            return fresh;
        }
        for SdnStringUpdate { space, string, value } in fresh.into_iter().rev() {
            match value {
                Some(value) => {
                    self.values.remove(&(space.clone(), string));
                    self.used.remove(&(space.clone(), value.clone()));
                    self.strings.remove(&(space, value));
                }
                None => drop(self.released.remove(&(space, string))),
            }
        }
        Vec::new()
    }

    /// Allocates a value to a string.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`: the strings of all values are in use.
    pub fn allocate(
        &mut self,
        strings: &Strings,
        space: &StringSpace,
        state: &ControlState,
        (string, place): (&str, &str),
    ) -> Result<BigUint, P4RuntimeError> {
        let assigned = state.sdn_strings().space(&space.key);
        let (count, after_removal) = assigned.map_or((0, 0), |assigned| (assigned.len(), assigned.len_after_removal()));
        // Unused values are released when the number of strings has doubled, so the search costs
        // little.
        if count >= 2 * after_removal + SPARE && self.released.is_empty() {
            self.release_unused(strings, space, state);
        }
        let mut free_value = self.find_free_value(space, state);
        if free_value.is_none() && self.release_unused(strings, space, state) {
            free_value = self.find_free_value(space, state);
        }
        let Some(value) = free_value else {
            let values = BigUint::one() << space.width;
            let message = format!(
                "{place}: all {values} values of {} have a string; delete what uses some of them, or give the type more bits in the program",
                space.key
            );
            return Err(P4RuntimeError::new(Code::ResourceExhausted, message));
        };
        self.assign(space, string, &value);
        Ok(value)
    }

    /// Assigns a value to a string.
    pub fn assign(&mut self, space: &StringSpace, string: &str, value: &BigUint) {
        let string: Arc<str> = string.into();
        self.values.insert((space.key.clone(), string.clone()), value.clone());
        self.strings.insert((space.key.clone(), value.clone()), string.clone());
        self.fresh.push(SdnStringUpdate { space: space.key.clone(), string, value: Some(value.clone()) });
    }

    /// Returns a value that has no string and that the program does not use itself: the one after
    /// the largest in use, else the smallest from 1 up, else 0.
    fn find_free_value(&self, space: &StringSpace, state: &ControlState) -> Option<BigUint> {
        let max = ones(space.width);
        let largest_assigned = state.sdn_strings().space(&space.key).and_then(|known| known.iter().next_back());
        let first = (space.key.clone(), BigUint::ZERO);
        let last = (space.key.clone(), max.clone());
        let pending = self.strings.range(first..=last).next_back().map(|((_, value), _)| value);
        let after_largest =
            largest_assigned.map(|(value, _)| value).max(pending).map_or(BigUint::one(), |value| value + 1u8);
        let is_free = |value: &BigUint| {
            !space.fixed_strings.contains_key(value)
                && !space.reserved.contains(value)
                && !self.used.contains(&(space.key.clone(), value.clone()))
                && !is_port(space, state, value)
                && self.string(space, state, value).is_none()
        };
        // At most one step for each allocated value.
        let first_free_from = |start: BigUint| {
            let mut value = start;
            while value <= max {
                if is_free(&value) {
                    return Some(value);
                }
                value += 1u8;
            }
            None
        };
        let zero = || Some(BigUint::ZERO).filter(|zero| is_free(zero));
        first_free_from(after_largest).or_else(|| first_free_from(BigUint::one())).or_else(zero)
    }

    /// Releases the unused strings of a space; returns whether there were any.
    fn release_unused(&mut self, strings: &Strings, space: &StringSpace, state: &ControlState) -> bool {
        let Some(known) = state.sdn_strings().space(&space.key).filter(|_| !space.never_reuses) else { return false };
        let used = used_values(strings, space, state);
        let mut some = false;
        for (value, string) in known.iter() {
            let of = (space.key.clone(), string.clone());
            let is_used = used.contains(value) || self.used.contains(&(space.key.clone(), value.clone()));
            if !is_used && self.released.insert(of) {
                self.fresh.push(SdnStringUpdate { space: space.key.clone(), string: string.clone(), value: None });
                some = true;
            }
        }
        some
    }
}

fn is_port(space: &StringSpace, state: &ControlState, value: &BigUint) -> bool {
    let number = || u32::try_from(value).ok();
    space.ports && state.ports().is_some_and(|ports| number().is_some_and(|number| ports.contains_key(&number)))
}

/// Returns the values of a space that are used in any table, including those that P4Info does not
/// show.
fn used_values(strings: &Strings, space: &StringSpace, state: &ControlState) -> BTreeSet<BigUint> {
    let pipeline = state.pipeline();
    let is_of_space = |type_name: Option<&str>| strings.space_of(type_name).is_some_and(|other| other.key == space.key);
    let mut used = BTreeSet::new();
    let mut search = UsedValueSearch { pipeline, is_of: &is_of_space, used: &mut used };
    for (id, table) in pipeline.tables.iter() {
        search.action(state.default_action(id).packed());
        let layout = state.layout(id);
        let keys: Vec<usize> =
            positions_of_space(table.match_keys().map(|(_, key)| key.type_name.as_deref()), &is_of_space);
        for entry in state.entries(id) {
            keys.iter().filter_map(|index| layout.fields.get(*index)).for_each(|field| {
                search.used.insert(big_from_words(field.value(entry.key())));
                if field.kind == ir::MatchKind::Range {
                    search.used.insert(big_from_words(field.second(entry.key())));
                }
            });
            search.action(entry.action());
        }
        search.members(state, id);
    }
    for (id, set) in pipeline.value_sets.iter() {
        let layout = state.value_set_layout(id);
        let keys = positions_of_space(set.keys.iter().map(|key| key.type_name.as_deref()), &is_of_space);
        for member in state.value_set(id) {
            let fields = keys.iter().filter_map(|index| layout.fields.get(*index));
            search.used.extend(fields.map(|field| big_from_words(field.value(member))));
        }
    }
    used
}

/// Returns the positions of types of the space.
fn positions_of_space<'a>(
    types: impl Iterator<Item = Option<&'a str>>,
    is_of: &dyn Fn(Option<&str>) -> bool,
) -> Vec<usize> {
    types.enumerate().filter(|(_, name)| is_of(*name)).map(|(at, _)| at).collect()
}

struct UsedValueSearch<'a> {
    pipeline: &'a Pipeline,
    is_of: &'a dyn Fn(Option<&str>) -> bool,
    used: &'a mut BTreeSet<BigUint>,
}

impl UsedValueSearch<'_> {
    fn action(&mut self, action: StoredActionRef<'_>) {
        let StoredActionRef::Call(id, args) = action else { return };
        let Some(declared) = self.pipeline.actions.get(id) else { return };
        if !declared.params.iter().any(|param| (self.is_of)(param.type_name.as_deref())) {
            return;
        }
        for (param, place) in declared.params.iter().zip(action_layout(self.pipeline, id)) {
            if (self.is_of)(param.type_name.as_deref())
                && let Some(words) = args.get(place.offset..place.offset + place.words)
            {
                self.used.insert(big_from_words(words));
            }
        }
    }

    fn members(&mut self, state: &ControlState, table: TableId) {
        let profile = self.pipeline.tables[table].implementation.and_then(|profile| state.profile(profile));
        for member in profile.into_iter().flat_map(|profile| profile.members.values()) {
            if let StoredAction::Call(..) = &member.action {
                self.action(member.action.packed());
            }
        }
    }
}
