//! Symbol table of the text format: names and their entities.

use crate::entity::Entity;
use crate::pipeline::Pipeline;
use std::collections::HashMap;

/// The kinds of entities that have a name. Names are looked up within a kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub(super) enum EntityKind {
    Enum,
    HeaderType,
    Var,
    Header,
    Stack,
    Union,
    Action,
    Table,
    Extern,
    ValueSet,
}

impl EntityKind {
    pub const ALL: [EntityKind; 10] = [
        EntityKind::Enum,
        EntityKind::HeaderType,
        EntityKind::Var,
        EntityKind::Header,
        EntityKind::Stack,
        EntityKind::Union,
        EntityKind::Action,
        EntityKind::Table,
        EntityKind::Extern,
        EntityKind::ValueSet,
    ];
    /// Returns the keyword that declares an entity of this kind.
    pub fn keyword(self) -> &'static str {
        match self {
            EntityKind::Enum => "enum",
            EntityKind::HeaderType => "header_type",
            EntityKind::Var => "var",
            EntityKind::Header => "header",
            EntityKind::Stack => "stack",
            EntityKind::Union => "union",
            EntityKind::Action => "action",
            EntityKind::Table => "table",
            EntityKind::Extern => "extern",
            EntityKind::ValueSet => "value_set",
        }
    }
    /// Returns the prefix of a numbered reference, as in the entity's `Display`.
    pub fn prefix(self) -> &'static str {
        match self {
            EntityKind::Enum => "enum",
            EntityKind::HeaderType => "hty",
            EntityKind::Var => "var",
            EntityKind::Header => "hdr",
            EntityKind::Stack => "stack",
            EntityKind::Union => "union",
            EntityKind::Action => "action",
            EntityKind::Table => "table",
            EntityKind::Extern => "extern",
            EntityKind::ValueSet => "vset",
        }
    }
}

/// Result of a name lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameLookup {
    One(u32),
    Ambiguous,
}

/// Names of all entities, by kind.
#[derive(Default)]
pub(super) struct SymbolTable {
    names: HashMap<EntityKind, Vec<String>>,
    index: HashMap<EntityKind, HashMap<String, NameLookup>>,
}

impl SymbolTable {
    /// Adds the next entity of a kind.
    pub fn add_entity(&mut self, kind: EntityKind, name: &str) {
        let list = self.names.entry(kind).or_default();
        let index = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list.push(name.to_string());
        self.index
            .entry(kind)
            .or_default()
            .entry(name.to_string())
            .and_modify(|f| *f = NameLookup::Ambiguous)
            .or_insert(NameLookup::One(index));
    }
    /// Returns the name of an entity, if it is unambiguous.
    pub fn unique_name(&self, kind: EntityKind, index: usize) -> Option<&str> {
        let name = self.names.get(&kind)?.get(index)?;
        matches!(self.look_up(kind, name), Some(NameLookup::One(_))).then_some(name.as_str())
    }
    /// Looks up a name.
    pub fn look_up(&self, kind: EntityKind, name: &str) -> Option<NameLookup> {
        self.index.get(&kind)?.get(name).copied()
    }
    /// Returns the number of entities of a kind.
    pub fn entity_count(&self, kind: EntityKind) -> usize {
        self.names.get(&kind).map_or(0, Vec::len)
    }

    pub fn of_pipeline(p: &Pipeline) -> Self {
        let mut names = SymbolTable::default();
        let mut all = |kind, list: &mut dyn Iterator<Item = &String>| list.for_each(|n| names.add_entity(kind, n));
        all(EntityKind::Enum, &mut p.enums.values().map(|x| &x.name));
        all(EntityKind::HeaderType, &mut p.header_types.values().map(|x| &x.name));
        all(EntityKind::Var, &mut p.vars.values().map(|x| &x.name));
        all(EntityKind::Header, &mut p.headers.values().map(|x| &x.name));
        all(EntityKind::Stack, &mut p.stacks.values().map(|x| &x.name));
        all(EntityKind::Union, &mut p.unions.values().map(|x| &x.name));
        all(EntityKind::Action, &mut p.actions.values().map(|x| &x.preamble.name));
        all(EntityKind::Table, &mut p.tables.values().map(|x| &x.preamble.name));
        all(EntityKind::Extern, &mut p.externs.values().map(|x| &x.preamble.name));
        all(EntityKind::ValueSet, &mut p.value_sets.values().map(|x| &x.preamble.name));
        names
    }
}

/// Parses the number of a numbered reference such as `var12`.
pub(super) fn numbered_index(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    // No sign, no leading zeros: each entity has one spelling.
    let plain = digits == "0" || !digits.starts_with('0');
    (plain && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Creates an entity from the number of a reference.
pub(super) fn entity_from_index<E: Entity>(number: u32) -> E {
    E::from_index(number as usize)
}
