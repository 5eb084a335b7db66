//! [`ValueSet`]: whether a member of a parser's value set matches.

use entries::KeyLayout;
use entries::PackedKey;
use hashbrown::HashSet;
use ir::MatchKind;
use std::sync::Arc;

/// The members of one value set.
#[derive(Clone, Debug)]
pub(super) struct ValueSet {
    layout: Arc<KeyLayout>,
    members: Arc<Vec<PackedKey>>,
    /// The same if all keys are exact: then one look is enough.
    exact: Option<Arc<HashSet<PackedKey>>>,
}

impl ValueSet {
    /// `layout` is that of the members' keys.
    pub fn new(layout: &KeyLayout, members: Arc<Vec<PackedKey>>) -> ValueSet {
        let mut set = ValueSet { layout: Arc::new(layout.clone()), members: Arc::default(), exact: None };
        set.set(members);
        set
    }

    /// Other members.
    pub fn set(&mut self, members: Arc<Vec<PackedKey>>) {
        let all_exact = self.layout.fields.iter().all(|field| field.kind == MatchKind::Exact);
        // A handful is compared as fast as it is hashed.
        let hashed = all_exact && members.len() > 4;
        self.exact = hashed.then(|| Arc::new(members.iter().cloned().collect()));
        self.members = members;
    }

    /// Whether a member matches. `keys` has the words of each key of the set, least significant first.
    pub fn contains(&self, keys: &[&[u64]]) -> bool {
        let fields = &self.layout.fields;
        if fields.iter().any(|field| keys.get(field.position).is_none_or(|key| key.len() != field.words)) {
            return false;
        }
        if let Some(exact) = &self.exact {
            let mut key = PackedKey::new();
            for field in fields {
                key.extend_from_slice(keys[field.position]);
            }
            return exact.contains(&key);
        }
        let matches = |member: &PackedKey| fields.iter().all(|field| field.matches(member, keys[field.position]));
        self.members.iter().any(matches)
    }
}
