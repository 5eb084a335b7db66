//! Strings that a control plane assigns to values one by one (P4Runtime specification,
//! `sdn_string`). Nothing here depends on types: a *space* is one mapping of strings to values.

use crate::batch::SdnStringUpdate;
use crate::error::UpdateError;
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The strings of one space. Each string has one value, and each value has at most one string.
#[derive(Clone, Debug, Default)]
pub struct SdnStringMap {
    values: BTreeMap<Arc<str>, BigUint>,
    strings: BTreeMap<BigUint, Arc<str>>,
    /// Number of strings right after the last removal.
    len_after_removal: usize,
}

/// Compares the strings only, because `len_after_removal` is a statistic.
impl PartialEq for SdnStringMap {
    fn eq(&self, other: &SdnStringMap) -> bool {
        self.values == other.values
    }
}

impl SdnStringMap {
    /// Returns the value of a string.
    pub fn value(&self, string: &str) -> Option<&BigUint> {
        self.values.get(string)
    }

    /// Returns the string of a value.
    pub fn string(&self, value: &BigUint) -> Option<&Arc<str>> {
        self.strings.get(value)
    }

    /// Iterates over all pairs, by value.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&BigUint, &Arc<str>)> {
        self.strings.iter()
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Reports whether the space has no strings.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of strings right after the last removal; all of them were in use then.
    pub fn len_after_removal(&self) -> usize {
        self.len_after_removal
    }
}

/// All spaces. A clone is cheap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SdnStrings(BTreeMap<Arc<str>, Arc<SdnStringMap>>);

impl SdnStrings {
    /// Returns a space; `None` if it has never had strings.
    pub fn space(&self, space: &str) -> Option<&SdnStringMap> {
        self.0.get(space).map(Arc::as_ref)
    }

    /// Iterates over all spaces by name.
    pub fn spaces(&self) -> impl Iterator<Item = (&Arc<str>, &SdnStringMap)> {
        self.0.iter().map(|(name, space)| (name, &**space))
    }

    /// Assigns a string to a value, or removes it. Returns the previous value of the string, for
    /// undo.
    ///
    /// # Errors
    /// The string has another value, or the value has another string.
    pub(crate) fn apply_update(&mut self, naming: &SdnStringUpdate) -> Result<Option<BigUint>, UpdateError> {
        let SdnStringUpdate { space: name, string, value } = naming;
        let known = self.space(name);
        let before = known.and_then(|space| space.value(string)).cloned();
        let Some(value) = value else {
            self.set_string(naming);
            return Ok(before);
        };
        let other = known.and_then(|space| space.string(value)).filter(|other| *other != string);
        if before.as_ref().is_some_and(|before| before != value) || other.is_some() {
            let other = other.unwrap_or(string).to_string();
            let (space, value) = (name.to_string(), value.clone());
            return Err(UpdateError::SdnStringConflict { space, string: string.to_string(), value, other });
        }
        self.set_string(naming);
        Ok(before)
    }

    /// Assigns or removes a string without checks, see [`SdnStrings::apply_update`].
    pub(crate) fn set_string(&mut self, SdnStringUpdate { space: name, string, value }: &SdnStringUpdate) {
        let space = Arc::make_mut(self.0.entry(name.clone()).or_default());
        if let Some(before) = space.values.remove(string) {
            space.strings.remove(&before);
        }
        match value {
            Some(value) => {
                space.values.insert(string.clone(), value.clone());
                space.strings.insert(value.clone(), string.clone());
            }
            None => space.len_after_removal = space.values.len(),
        }
    }
}
