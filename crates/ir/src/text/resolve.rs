//! Which name stands for which entity.

use crate::entity::Entity;
use crate::pipeline::Pipeline;
use std::collections::HashMap;

/// The kinds of entities that have a name. Names are looked up within a kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub(super) enum Kind {
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

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Enum,
        Kind::HeaderType,
        Kind::Var,
        Kind::Header,
        Kind::Stack,
        Kind::Union,
        Kind::Action,
        Kind::Table,
        Kind::Extern,
        Kind::ValueSet,
    ];
    /// The keyword that declares one.
    pub fn keyword(self) -> &'static str {
        match self {
            Kind::Enum => "enum",
            Kind::HeaderType => "header_type",
            Kind::Var => "var",
            Kind::Header => "header",
            Kind::Stack => "stack",
            Kind::Union => "union",
            Kind::Action => "action",
            Kind::Table => "table",
            Kind::Extern => "extern",
            Kind::ValueSet => "value_set",
        }
    }
    /// The prefix of a numbered reference, as the entity's `Display` has it.
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Enum => "enum",
            Kind::HeaderType => "hty",
            Kind::Var => "var",
            Kind::Header => "hdr",
            Kind::Stack => "stack",
            Kind::Union => "union",
            Kind::Action => "action",
            Kind::Table => "table",
            Kind::Extern => "extern",
            Kind::ValueSet => "vset",
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    One(u32),
    Ambiguous,
}

/// Names of all entities, by kind.
#[derive(Default)]
pub(super) struct Names {
    names: HashMap<Kind, Vec<String>>,
    index: HashMap<Kind, HashMap<String, Found>>,
}

impl Names {
    /// Adds the next entity of a kind.
    pub fn add(&mut self, kind: Kind, name: &str) {
        let list = self.names.entry(kind).or_default();
        let index = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list.push(name.to_string());
        self.index
            .entry(kind)
            .or_default()
            .entry(name.to_string())
            .and_modify(|f| *f = Found::Ambiguous)
            .or_insert(Found::One(index));
    }
    /// The name of an entity, if it leads back to it.
    pub fn name(&self, kind: Kind, index: usize) -> Option<&str> {
        let name = self.names.get(&kind)?.get(index)?;
        matches!(self.find(kind, name), Some(Found::One(_))).then_some(name.as_str())
    }
    /// What a name stands for.
    pub fn find(&self, kind: Kind, name: &str) -> Option<Found> {
        self.index.get(&kind)?.get(name).copied()
    }
    /// How many entities of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.names.get(&kind).map_or(0, Vec::len)
    }

    pub fn of_pipeline(p: &Pipeline) -> Self {
        let mut names = Names::default();
        let mut all = |kind, list: &mut dyn Iterator<Item = &String>| list.for_each(|n| names.add(kind, n));
        all(Kind::Enum, &mut p.enums.values().map(|x| &x.name));
        all(Kind::HeaderType, &mut p.header_types.values().map(|x| &x.name));
        all(Kind::Var, &mut p.vars.values().map(|x| &x.name));
        all(Kind::Header, &mut p.headers.values().map(|x| &x.name));
        all(Kind::Stack, &mut p.stacks.values().map(|x| &x.name));
        all(Kind::Union, &mut p.unions.values().map(|x| &x.name));
        all(Kind::Action, &mut p.actions.values().map(|x| &x.preamble.name));
        all(Kind::Table, &mut p.tables.values().map(|x| &x.preamble.name));
        all(Kind::Extern, &mut p.externs.values().map(|x| &x.preamble.name));
        all(Kind::ValueSet, &mut p.value_sets.values().map(|x| &x.preamble.name));
        names
    }
}

/// The number of a numbered reference such as `var12`.
pub(super) fn numbered(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    // No sign, no leading zeros: each entity has one spelling.
    let plain = digits == "0" || !digits.starts_with('0');
    (plain && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// An entity from the number of a reference.
pub(super) fn entity<E: Entity>(number: u32) -> E {
    E::from_index(number as usize)
}
