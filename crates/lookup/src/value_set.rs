//! [`ValueSetMatcher`]: membership test of a parser value set.

use entries::KeyLayout;
use entries::PackedKey;
use hashbrown::HashSet;
use ir::MatchKind;
use std::sync::Arc;

/// Members of one value set.
#[derive(Clone, Debug)]
pub(super) struct ValueSetMatcher {
    layout: Arc<KeyLayout>,
    members: Arc<Vec<PackedKey>>,
    /// Hashed members if all keys are exact and the set is large enough.
    exact: Option<Arc<HashSet<PackedKey>>>,
}

impl ValueSetMatcher {
    /// Creates a value set. `layout` is the layout of the members' keys.
    pub fn new(layout: &KeyLayout, members: Arc<Vec<PackedKey>>) -> ValueSetMatcher {
        let mut set = ValueSetMatcher { layout: Arc::new(layout.clone()), members: Arc::default(), exact: None };
        set.replace_members(members);
        set
    }

    /// Replaces all members.
    pub fn replace_members(&mut self, members: Arc<Vec<PackedKey>>) {
        let all_exact = self.layout.fields.iter().all(|field| field.kind == MatchKind::Exact);
        // Up to four members are compared as fast as they are hashed.
        let hashed = all_exact && members.len() > 4;
        self.exact = hashed.then(|| Arc::new(members.iter().cloned().collect()));
        self.members = members;
    }

    /// Returns whether a member matches. `keys` holds the words of each key of the set, least
    /// significant first.
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
