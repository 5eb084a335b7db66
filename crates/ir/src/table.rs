//! Tables, their keys, actions and entries.

use crate::declaration::{Preamble, SourceLoc};
use crate::entity::*;
use crate::types::Type;
use num_bigint::BigUint;

/// Declares the match kinds, each with its keyword, an example of a match in an entry, and whether
/// entries need priorities.
macro_rules! match_kinds {
    ($($(#[$doc:meta])* $kind:ident: $keyword:literal, $example:literal, $needs_priority:literal;)*) => {
        /// Match kind of a key. `entries::match_key` implements the matching of values.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum MatchKind {
            $($(#[$doc])* $kind,)*
        }

        impl MatchKind {
            /// All match kinds, with their P4 keywords.
            pub const KEYWORDS: &[(MatchKind, &str)] = &[$((MatchKind::$kind, $keyword),)*];

            /// Returns the P4 keyword.
            pub const fn keyword(self) -> &'static str {
                match self {
                    $(MatchKind::$kind => $keyword,)*
                }
            }

            /// Returns an example of a match that an entry can have for such a key.
            pub const fn example(self) -> &'static str {
                match self {
                    $(MatchKind::$kind => $example,)*
                }
            }

            /// Reports whether a priority decides between two entries that match the same packet.
            pub const fn needs_priority(self) -> bool {
                match self {
                    $(MatchKind::$kind => $needs_priority,)*
                }
            }
        }
    };
}

match_kinds! {
    /// Equal.
    Exact: "exact", "10", false;
    /// Equal where a mask is 1.
    Ternary: "ternary", "10 &&& 0xff", true;
    /// Equal in the first bits; the longest prefix wins.
    Lpm: "lpm", "10.0.0.0/8", false;
    /// Between two bounds, both included.
    Range: "range", "1..9", true;
    /// Equal, or ignored.
    Optional: "optional", "10 or *", true;
    /// Not matched: feeds the action selector's hash, if the table has one.
    Selector: "selector", "10", false;
}

impl MatchKind {
    /// Returns the match kind of this keyword.
    pub fn from_keyword(keyword: &str) -> Option<MatchKind> {
        Self::KEYWORDS.iter().find(|(_, known)| *known == keyword).map(|(kind, _)| *kind)
    }

    /// Returns the match of a key of type `ty` with exactly this value; without a value, the match
    /// with all values. `None` if the match kind cannot match all values.
    pub fn key_match(self, ty: Type, value: Option<BigUint>) -> Option<KeyMatch> {
        let ones = |width: u32| (BigUint::from(1u8) << width) - 1u8;
        let width = ty.width();
        Some(match (self, value) {
            (MatchKind::Exact | MatchKind::Selector, value) => KeyMatch::Exact(value?),
            (MatchKind::Ternary, Some(value)) => KeyMatch::Ternary { value, mask: ones(width) },
            (MatchKind::Ternary, None) => KeyMatch::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO },
            (MatchKind::Lpm, Some(value)) => KeyMatch::Lpm { value, prefix_len: width },
            (MatchKind::Lpm, None) => KeyMatch::Lpm { value: BigUint::ZERO, prefix_len: 0 },
            (MatchKind::Range, Some(value)) => KeyMatch::Range { lo: value.clone(), hi: value },
            (MatchKind::Range, None) if ty.is_signed() && width > 0 => {
                KeyMatch::Range { lo: BigUint::from(1u8) << (width - 1), hi: ones(width - 1) }
            }
            (MatchKind::Range, None) => KeyMatch::Range { lo: BigUint::ZERO, hi: ones(width) },
            (MatchKind::Optional, value) => KeyMatch::Optional(value),
        })
    }
}

/// A key of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchKey {
    /// Control-plane name (`hdr.ipv4.dst`, after `@name`).
    pub name: String,
    /// Type of the matched value.
    pub ty: Type,
    /// Match kind.
    pub kind: MatchKind,
    /// Annotations as P4Info shows them, and `@brief` and `@description`.
    pub annotations: Vec<String>,
    /// `@id`, or 0.
    pub id: u32,
    /// Name of the `type` or enum that the key has in the program.
    pub type_name: Option<String>,
}

impl MatchKey {
    /// Creates a key without annotations, `@id` and type name.
    pub fn new(name: impl Into<String>, ty: Type, kind: MatchKind) -> MatchKey {
        MatchKey { name: name.into(), ty, kind, annotations: Vec::new(), id: 0, type_name: None }
    }
}

/// A parameter set by the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// Annotations as P4Info shows them, and `@brief` and `@description`.
    pub annotations: Vec<String>,
    /// `@id`, or 0.
    pub id: u32,
    /// Name of the `type` or enum that the parameter has in the program.
    pub type_name: Option<String>,
}

impl Param {
    /// Creates a parameter without annotations, `@id` and type name.
    pub fn new(name: impl Into<String>, ty: Type) -> Param {
        Param { name: name.into(), ty, annotations: Vec::new(), id: 0, type_name: None }
    }
}

/// An action as the control plane sees it. Its code is inlined at each
/// [`crate::Terminator::Apply`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Control-plane identity.
    pub preamble: Preamble,
    /// Directionless parameters.
    pub params: Vec<Param>,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

/// An action in a table's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionRef {
    /// The action.
    pub action: ActionId,
    /// `@tableonly`: never the default action.
    pub table_only: bool,
    /// `@defaultonly`: only the default action.
    pub default_only: bool,
    /// Other annotations as P4Info shows them. P4Info adds `@tableonly` and `@defaultonly` at the
    /// front if they are missing here.
    pub annotations: Vec<String>,
}

impl ActionRef {
    /// Creates a reference to an action that is allowed in entries and as the default.
    pub fn new(action: ActionId) -> ActionRef {
        ActionRef { action, table_only: false, default_only: false, annotations: Vec::new() }
    }
}

/// An action with its data.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// A value for each of the action's parameters, as bits of the parameter's type.
    pub args: Vec<BigUint>,
}

/// Match of an entry for one key.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum KeyMatch {
    /// Equal.
    Exact(BigUint),
    /// Equal where the mask is 1; the value is 0 where the mask is 0. Mask 0 is "don't care".
    Ternary {
        /// Value.
        value: BigUint,
        /// Mask.
        mask: BigUint,
    },
    /// Equal in the first `prefix_len` bits; the other bits of the value are 0.
    Lpm {
        /// Value.
        value: BigUint,
        /// Prefix length in bits.
        prefix_len: u32,
    },
    /// Within both bounds, in the order of the key's type.
    Range {
        /// Lower bound.
        lo: BigUint,
        /// Upper bound.
        hi: BigUint,
    },
    /// Equal; `None`: any value.
    Optional(Option<BigUint>),
}

impl KeyMatch {
    /// Returns the match kind of the keys that this match applies to.
    pub fn kind(&self) -> MatchKind {
        match self {
            KeyMatch::Exact(_) => MatchKind::Exact,
            KeyMatch::Ternary { .. } => MatchKind::Ternary,
            KeyMatch::Lpm { .. } => MatchKind::Lpm,
            KeyMatch::Range { .. } => MatchKind::Range,
            KeyMatch::Optional(_) => MatchKind::Optional,
        }
    }
}

/// An entry that the program itself declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstEntry {
    /// One match for each key except selector keys.
    pub keys: Vec<KeyMatch>,
    /// Priority; the greatest wins. Lowering converts the program's order or numbers to this
    /// convention, for either value of `largest_priority_wins`. 0 for tables without priorities.
    pub priority: i32,
    /// The action.
    pub action: ActionCall,
    /// `const` entry: the control plane cannot change it.
    pub is_const: bool,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Control-plane identity.
    pub preamble: Preamble,
    /// Keys in order.
    pub keys: Vec<MatchKey>,
    /// Actions in order.
    pub actions: Vec<ActionRef>,
    /// Default action.
    pub default_action: ActionCall,
    /// `const default_action`.
    pub const_default: bool,
    /// Entries that the program declares.
    pub entries: Vec<ConstEntry>,
    /// `const entries`: the control plane cannot add any.
    pub const_entries: bool,
    /// `size`, if given: number of entries.
    pub size: Option<u64>,
    /// Action profile or selector.
    pub implementation: Option<ExternId>,
    /// Attached direct counter.
    pub direct_counter: Option<ExternId>,
    /// Attached direct meter.
    pub direct_meter: Option<ExternId>,
    /// v1model: the variable that receives the direct meter's color when the table is applied.
    pub meter_result: Option<VarId>,
    /// PNA `add_on_miss`: the data plane can add entries.
    pub add_on_miss: bool,
    /// v1model `support_timeout`, PNA `pna_idle_timeout`.
    pub idle_timeout: bool,
    /// Other properties as written: name, text.
    pub properties: Vec<(String, String)>,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

impl Table {
    /// Creates a table without entries, size or attached objects; its default action can be
    /// changed.
    pub fn new(preamble: Preamble, keys: Vec<MatchKey>, actions: Vec<ActionRef>, default_action: ActionCall) -> Table {
        Table {
            preamble,
            keys,
            actions,
            default_action,
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            size: None,
            implementation: None,
            direct_counter: None,
            direct_meter: None,
            meter_result: None,
            add_on_miss: false,
            idle_timeout: false,
            properties: Vec::new(),
            loc: SourceLoc::default(),
        }
    }
}

impl Table {
    /// Reports whether entries have a priority: at least one key is ternary, range or optional.
    pub fn has_priority(&self) -> bool {
        self.keys.iter().any(|key| key.kind.needs_priority())
    }

    /// Returns whether a packet has hit an entry if its application of the table runs an action;
    /// `None` if it can be either. An entry whose group is empty counts as a miss.
    pub fn known_hit(&self, action: ActionId) -> Option<bool> {
        let listed = self.actions.iter().find(|listed| listed.action == action)?;
        if listed.default_only || self.match_keys().next().is_none() {
            Some(false)
        } else {
            let is_no_default = listed.table_only || self.const_default && self.default_action.action != action;
            is_no_default.then_some(true)
        }
    }

    /// Returns the matched keys, i.e. all except selector keys, with their positions in `keys`.
    pub fn match_keys(&self) -> impl Iterator<Item = (usize, &MatchKey)> {
        self.keys.iter().enumerate().filter(|(_, k)| k.kind != MatchKind::Selector)
    }
}
