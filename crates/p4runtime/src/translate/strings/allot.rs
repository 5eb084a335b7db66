//! [`Pending`]: strings that get values while the updates of a request are translated.
//!
//! A string that is written for the first time gets the value behind the greatest that was ever
//! given out, or, when those are used up, the smallest that is free; 0 comes last, as programs
//! take it for "nothing". When no value is free, or when there are many more strings than there
//! were in use last time, strings that nothing written uses any more are given up. So what is
//! named is bounded by what is written, and a string that was deleted and comes again mostly
//! stands for the same value as before.

use super::{StringSpace, Strings};
use crate::translate::scalar::ones;
use crate::{Code, Refusal};
use entries::{Action, Naming, PackedAction, State, action_layout, big_from_words};
use ir::{Pipeline, TableId};
use num_bigint::BigUint;
use num_traits::One;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Strings of one space that are kept although nothing uses them, beside as many as were in use.
const SPARE: usize = 4096;

/// What the updates of a request so far have named, beside what the state has.
#[derive(Debug, Default)]
pub struct Pending {
    values: BTreeMap<(Arc<str>, Arc<str>), BigUint>,
    strings: BTreeMap<(Arc<str>, BigUint), Arc<str>>,
    given_up: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Values that updates of this request use: they are in no state yet.
    used: BTreeSet<(Arc<str>, BigUint)>,
    /// What the update that is being translated has named.
    fresh: Vec<Naming>,
}

impl Pending {
    /// The value that a string stands for.
    pub fn value(&self, space: &StringSpace, state: &State, string: &str) -> Option<BigUint> {
        let of = (space.key.clone(), Arc::from(string));
        if let Some(value) = self.values.get(&of) {
            return Some(value.clone());
        }
        let known = state.names().space(&space.key).and_then(|space| space.value(string)).cloned();
        known.filter(|_| !self.given_up.contains(&of))
    }

    /// The string that stands for a value.
    pub fn string(&self, space: &StringSpace, state: &State, value: &BigUint) -> Option<Arc<str>> {
        if let Some(string) = self.strings.get(&(space.key.clone(), value.clone())) {
            return Some(string.clone());
        }
        let known = state.names().space(&space.key).and_then(|space| space.string(value)).cloned();
        known.filter(|string| !self.given_up.contains(&(space.key.clone(), string.clone())))
    }

    /// An update of the request uses a value.
    pub fn uses(&mut self, space: &StringSpace, value: &BigUint) {
        self.used.insert((space.key.clone(), value.clone()));
    }

    /// What the update that was translated has named, if it was good. If it was not, it has named
    /// nothing.
    pub fn take(&mut self, good: bool) -> Vec<Naming> {
        let fresh = std::mem::take(&mut self.fresh);
        if good {
            return fresh;
        }
        for Naming { space, string, value } in fresh.into_iter().rev() {
            match value {
                Some(value) => {
                    self.values.remove(&(space.clone(), string));
                    self.used.remove(&(space.clone(), value.clone()));
                    self.strings.remove(&(space, value));
                }
                None => drop(self.given_up.remove(&(space, string))),
            }
        }
        Vec::new()
    }

    /// Gives a string a value of its own.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`: all values have strings that something uses.
    pub fn allot(
        &mut self,
        strings: &Strings,
        space: &StringSpace,
        state: &State,
        (string, place): (&str, &str),
    ) -> Result<BigUint, Refusal> {
        let known = state.names().space(&space.key);
        let (count, floor) = known.map_or((0, 0), |known| (known.len(), known.floor()));
        if count >= 2 * floor + SPARE && self.given_up.is_empty() {
            self.give_up(strings, space, state);
        }
        let mut found = self.free(space, state);
        if found.is_none() && self.give_up(strings, space, state) {
            found = self.free(space, state);
        }
        let Some(value) = found else {
            let values = BigUint::one() << space.width;
            let message = format!(
                "{place}: all {values} values of {} have a string; delete what uses some of them, or give the type more bits in the program",
                space.key
            );
            return Err(Refusal::new(Code::ResourceExhausted, message));
        };
        self.name(space, string, &value);
        Ok(value)
    }

    /// A string stands for a value from now on.
    pub fn name(&mut self, space: &StringSpace, string: &str, value: &BigUint) {
        let string: Arc<str> = string.into();
        self.values.insert((space.key.clone(), string.clone()), value.clone());
        self.strings.insert((space.key.clone(), value.clone()), string.clone());
        self.fresh.push(Naming { space: space.key.clone(), string, value: Some(value.clone()) });
    }

    /// A value that has no string, and that the program does not use by itself.
    fn free(&self, space: &StringSpace, state: &State) -> Option<BigUint> {
        let most = ones(space.width);
        let named = state.names().space(&space.key).and_then(|known| known.iter().next_back());
        let first = (space.key.clone(), BigUint::ZERO);
        let last = (space.key.clone(), most.clone());
        let pending = self.strings.range(first..=last).next_back().map(|((_, value), _)| value);
        let behind = named.map(|(value, _)| value).max(pending).map_or(BigUint::one(), |value| value + 1u8);
        let is_free = |value: &BigUint| {
            !space.fixed_strings.contains_key(value)
                && !space.reserved.contains(value)
                && !self.used.contains(&(space.key.clone(), value.clone()))
                && !is_port(space, state, value)
                && self.string(space, state, value).is_none()
        };
        // At most one step for each value that is taken.
        let upwards = |from: BigUint| {
            let mut value = from;
            while value <= most {
                if is_free(&value) {
                    return Some(value);
                }
                value += 1u8;
            }
            None
        };
        let zero = || Some(BigUint::ZERO).filter(|zero| is_free(zero));
        upwards(behind).or_else(|| upwards(BigUint::one())).or_else(zero)
    }

    /// Gives up the strings of a space that nothing uses; whether there were some.
    fn give_up(&mut self, strings: &Strings, space: &StringSpace, state: &State) -> bool {
        let Some(known) = state.names().space(&space.key).filter(|_| !space.keeps) else { return false };
        let used = used_values(strings, space, state);
        let mut some = false;
        for (value, string) in known.iter() {
            let of = (space.key.clone(), string.clone());
            let is_used = used.contains(value) || self.used.contains(&(space.key.clone(), value.clone()));
            if !is_used && self.given_up.insert(of) {
                self.fresh.push(Naming { space: space.key.clone(), string: string.clone(), value: None });
                some = true;
            }
        }
        some
    }
}

fn is_port(space: &StringSpace, state: &State, value: &BigUint) -> bool {
    let number = || u32::try_from(value).ok();
    space.ports && state.ports().is_some_and(|ports| number().is_some_and(|number| ports.contains_key(&number)))
}

/// The values of a space that something written has, in all tables, also those that P4Info does
/// not show.
fn used_values(strings: &Strings, space: &StringSpace, state: &State) -> BTreeSet<BigUint> {
    let pipeline = state.pipeline();
    let is_of = |type_name: Option<&str>| strings.space_of(type_name).is_some_and(|other| other.key == space.key);
    let mut used = BTreeSet::new();
    let mut looked = Looked { pipeline, is_of: &is_of, used: &mut used };
    for (id, table) in pipeline.tables.iter() {
        looked.action(state.default_action(id).packed());
        let layout = state.layout(id);
        let keys: Vec<usize> = places(table.match_keys().map(|(_, key)| key.type_name.as_deref()), &is_of);
        for entry in state.entries(id) {
            keys.iter().filter_map(|at| layout.fields.get(*at)).for_each(|field| {
                looked.used.insert(big_from_words(field.value(entry.key())));
                if field.kind == ir::MatchKind::Range {
                    looked.used.insert(big_from_words(field.second(entry.key())));
                }
            });
            looked.action(entry.action());
        }
        looked.members(state, id);
    }
    for (id, set) in pipeline.value_sets.iter() {
        let layout = state.value_set_layout(id);
        let keys = places(set.keys.iter().map(|key| key.type_name.as_deref()), &is_of);
        for member in state.value_set(id) {
            let fields = keys.iter().filter_map(|at| layout.fields.get(*at));
            looked.used.extend(fields.map(|field| big_from_words(field.value(member))));
        }
    }
    used
}

/// Which of some types are of the space.
fn places<'a>(types: impl Iterator<Item = Option<&'a str>>, is_of: &dyn Fn(Option<&str>) -> bool) -> Vec<usize> {
    types.enumerate().filter(|(_, name)| is_of(*name)).map(|(at, _)| at).collect()
}

struct Looked<'a> {
    pipeline: &'a Pipeline,
    is_of: &'a dyn Fn(Option<&str>) -> bool,
    used: &'a mut BTreeSet<BigUint>,
}

impl Looked<'_> {
    fn action(&mut self, action: PackedAction<'_>) {
        let PackedAction::Call(id, args) = action else { return };
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

    fn members(&mut self, state: &State, table: TableId) {
        let profile = self.pipeline.tables[table].implementation.and_then(|profile| state.profile(profile));
        for member in profile.into_iter().flat_map(|profile| profile.members.values()) {
            if let Action::Call(..) = &member.action {
                self.action(member.action.packed());
            }
        }
    }
}
