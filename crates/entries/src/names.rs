//! [`Names`]: strings by which a control plane calls values of a type, as far as they were given
//! out one by one (P4Runtime specification, `sdn_string`). Nothing here knows types: a *space* is
//! whatever shares one mapping.

use crate::batch::Naming;
use crate::error::UpdateError;
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The strings of one space. Each stands for one value, and each value has one string at most.
#[derive(Clone, Debug, Default)]
pub struct Space {
    values: BTreeMap<Arc<str>, BigUint>,
    strings: BTreeMap<BigUint, Arc<str>>,
    /// How many there were when some were last given up.
    floor: usize,
}

/// How many there were then says nothing about what is there.
impl PartialEq for Space {
    fn eq(&self, other: &Space) -> bool {
        self.values == other.values
    }
}

impl Space {
    /// The value that a string stands for.
    pub fn value(&self, string: &str) -> Option<&BigUint> {
        self.values.get(string)
    }

    /// The string that stands for a value.
    pub fn string(&self, value: &BigUint) -> Option<&Arc<str>> {
        self.strings.get(value)
    }

    /// All of them, by value.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&BigUint, &Arc<str>)> {
        self.strings.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many there were when some were last given up: those were in use then.
    pub fn floor(&self) -> usize {
        self.floor
    }
}

/// All spaces. A copy costs little.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names(BTreeMap<Arc<str>, Arc<Space>>);

impl Names {
    /// A space; `None` if nothing was named in it.
    pub fn space(&self, space: &str) -> Option<&Space> {
        self.0.get(space).map(Arc::as_ref)
    }

    /// All spaces by their names.
    pub fn spaces(&self) -> impl Iterator<Item = (&Arc<str>, &Space)> {
        self.0.iter().map(|(name, space)| (name, &**space))
    }

    /// Names a value, or gives a string up. What has to be undone: the value that the string stood
    /// for before.
    pub(crate) fn apply(&mut self, naming: &Naming) -> Result<Option<BigUint>, UpdateError> {
        let Naming { space: name, string, value } = naming;
        let known = self.space(name);
        let before = known.and_then(|space| space.value(string)).cloned();
        let Some(value) = value else {
            self.set(naming);
            return Ok(before);
        };
        let other = known.and_then(|space| space.string(value)).filter(|other| *other != string);
        if before.as_ref().is_some_and(|before| before != value) || other.is_some() {
            let other = other.unwrap_or(string).to_string();
            let (space, value) = (name.to_string(), value.clone());
            return Err(UpdateError::Named { space, string: string.to_string(), value, other });
        }
        self.set(naming);
        Ok(before)
    }

    /// As [`Names::apply`], whatever is there.
    pub(crate) fn set(&mut self, Naming { space: name, string, value }: &Naming) {
        let space = Arc::make_mut(self.0.entry(name.clone()).or_default());
        if let Some(before) = space.values.remove(string) {
            space.strings.remove(&before);
        }
        match value {
            Some(value) => {
                space.values.insert(string.clone(), value.clone());
                space.strings.insert(value.clone(), string.clone());
            }
            None => space.floor = space.values.len(),
        }
    }
}
