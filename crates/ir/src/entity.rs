//! Typed indices and the dense maps that they index.
//!
//! Each kind of entity has its own index type (`VarId(3)`), so that a variable cannot be mistaken
//! for a header. Each prints as its short prefix and number (`var3`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed index into an [`EntityMap`].
pub trait Entity: Copy + Eq {
    /// Returns the position in the map.
    fn index(self) -> usize;
    /// Creates the entity of this position.
    fn from_index(index: usize) -> Self;
}

macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl Entity for $name {
            fn index(self) -> usize { self.0 as usize }
            fn from_index(index: usize) -> Self { $name(u32::try_from(index).expect("fewer than 2^32 entities")) }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, concat!($prefix, "{}"), self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(self, f) }
        }
    )*};
}

entities! {
    /// An enumeration type of the program.
    EnumId = "enum";
    /// A header type.
    HeaderTypeId = "hty";
    /// A mutable scalar: a header field, a metadata field or a local.
    VarId = "var";
    /// A header instance: a validity bit and its field variables.
    HeaderId = "hdr";
    /// A header stack: its elements and its next index.
    StackId = "stack";
    /// A header union: its members, of which at most one is valid.
    UnionId = "union";
    /// A table.
    TableId = "table";
    /// An action as the control plane sees it.
    ActionId = "action";
    /// An extern object.
    ExternId = "extern";
    /// A parser value set.
    ValueSetId = "vset";
    /// A programmable block of the architecture (parser, ingress, ...).
    ControlId = "control";
    /// A basic block of a body.
    Block = "block";
    /// An SSA value of a body.
    Value = "v";
}

/// A dense map from an entity to `V`, in order of creation.
#[derive(Clone, PartialEq, Eq)]
pub struct EntityMap<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K: Entity, V> EntityMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        EntityMap { items: Vec::new(), key: PhantomData }
    }
    /// Adds an item and returns its entity.
    pub fn push(&mut self, item: V) -> K {
        let key = K::from_index(self.items.len());
        self.items.push(item);
        key
    }
    /// Returns the entity that the next `push` will return.
    pub fn next_key(&self) -> K {
        K::from_index(self.items.len())
    }
    /// Returns the item, or `None` for an entity that this map does not hold.
    pub fn get(&self, key: K) -> Option<&V> {
        self.items.get(key.index())
    }
    /// Returns the item for mutation, or `None` for an entity that this map does not hold.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.items.get_mut(key.index())
    }
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Reports whether the map has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Iterates over all entities in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + use<K, V> {
        (0..self.items.len()).map(K::from_index)
    }
    /// Iterates over all items in order.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.items.iter()
    }
    /// Iterates over all items in order, for mutation.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.items.iter_mut()
    }
    /// Iterates over all entities with their items, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.items.iter().enumerate().map(|(i, v)| (K::from_index(i), v))
    }
}

impl<K: Entity, V> Default for EntityMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Entity, V> Index<K> for EntityMap<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        &self.items[key.index()]
    }
}

impl<K: Entity, V> IndexMut<K> for EntityMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.items[key.index()]
    }
}

impl<K: Entity + fmt::Debug, V: fmt::Debug> fmt::Debug for EntityMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
