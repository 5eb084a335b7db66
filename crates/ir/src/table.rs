//! Tables, their keys, actions and entries.

use crate::declared::{Loc, Preamble};
use crate::entity::*;
use crate::types::Type;
use num_bigint::BigUint;

/// Declares the match kinds: for each its word, an example of what an entry writes, and whether entries need priorities.
macro_rules! match_kinds {
    ($($(#[$doc:meta])* $kind:ident: $word:literal, $example:literal, $needs_priority:literal;)*) => {
        /// How a key is matched. What a kind means to a packet's value is said in `entries::match_key`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum MatchKind {
            $($(#[$doc])* $kind,)*
        }

        impl MatchKind {
            /// All of them, with the words of P4 programs.
            pub const WORDS: &[(MatchKind, &str)] = &[$((MatchKind::$kind, $word),)*];

            /// Its word in a P4 program.
            pub const fn word(self) -> &'static str {
                match self {
                    $(MatchKind::$kind => $word,)*
                }
            }

            /// What an entry can write for such a key.
            pub const fn example(self) -> &'static str {
                match self {
                    $(MatchKind::$kind => $example,)*
                }
            }

            /// Whether a priority decides between two entries that match the same packet.
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
    /// Equal, or not asked for.
    Optional: "optional", "10 or *", true;
    /// Not matched: feeds the action selector's hash, if the table has one.
    Selector: "selector", "10", false;
}

impl MatchKind {
    /// The kind of that word.
    pub fn from_word(word: &str) -> Option<MatchKind> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }

    /// The match that takes this value alone; without a value, the one that takes each. `None`: the kind has none that does.
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
pub struct Key {
    /// Control-plane name (`hdr.ipv4.dst`, after `@name`).
    pub name: String,
    /// Type of the value that is matched.
    pub ty: Type,
    /// How it is matched.
    pub kind: MatchKind,
    /// Annotations as P4Info shows them, and `@brief` and `@description`.
    pub annotations: Vec<String>,
    /// `@id`, or 0.
    pub id: u32,
    /// Name of the `type` or enum that the key has in the program.
    pub type_name: Option<String>,
}

impl Key {
    /// A key of which the source says nothing more.
    pub fn new(name: impl Into<String>, ty: Type, kind: MatchKind) -> Key {
        Key { name: name.into(), ty, kind, annotations: Vec::new(), id: 0, type_name: None }
    }
}

/// A parameter that the control plane gives.
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
    /// Name of the `type` or enum that it has in the program.
    pub type_name: Option<String>,
}

impl Param {
    /// A parameter of which the source says nothing more.
    pub fn new(name: impl Into<String>, ty: Type) -> Param {
        Param { name: name.into(), ty, annotations: Vec::new(), id: 0, type_name: None }
    }
}

/// An action as the control plane sees it. Its code is inlined at each [`crate::Term::Apply`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Identity.
    pub preamble: Preamble,
    /// Directionless parameters.
    pub params: Vec<Param>,
    /// Where it is declared.
    pub loc: Loc,
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
    /// Other annotations as P4Info shows them. Of the two above, P4Info puts in front what is not among these.
    pub annotations: Vec<String>,
}

impl ActionRef {
    /// An action for entries and as the default.
    pub fn new(action: ActionId) -> ActionRef {
        ActionRef { action, table_only: false, default_only: false, annotations: Vec::new() }
    }
}

/// An action with its data.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// A value for each of its parameters, as bits of the parameter's type.
    pub args: Vec<BigUint>,
}

/// What an entry asks of one key.
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
    /// Equal in the first `prefix_len` bits; the rest of the value is 0.
    Lpm {
        /// Value.
        value: BigUint,
        /// In bits.
        prefix_len: u32,
    },
    /// Within both bounds, in the order of the key's type.
    Range {
        /// Lower bound.
        lo: BigUint,
        /// Upper bound.
        hi: BigUint,
    },
    /// Equal, or anything.
    Optional(Option<BigUint>),
}

impl KeyMatch {
    /// The kind of keys that it is for.
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
    /// One for each key but selector keys.
    pub keys: Vec<KeyMatch>,
    /// Greater wins, whatever the program's `largest_priority_wins` says: lowering turns its order or numbers into that.
    /// 0 where the table has no priorities.
    pub priority: i32,
    /// The action.
    pub action: ActionCall,
    /// `const` entry: the control plane can't change it.
    pub is_const: bool,
    /// Where it is declared.
    pub loc: Loc,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Identity.
    pub preamble: Preamble,
    /// Keys in order.
    pub keys: Vec<Key>,
    /// Actions in order.
    pub actions: Vec<ActionRef>,
    /// Default action.
    pub default_action: ActionCall,
    /// `const default_action`.
    pub const_default: bool,
    /// Entries the program declares.
    pub entries: Vec<ConstEntry>,
    /// `const entries`: the control plane can't add any.
    pub const_entries: bool,
    /// `size`, if given: number of entries.
    pub size: Option<u64>,
    /// Action profile or selector.
    pub implementation: Option<ExternId>,
    /// Attached direct counter.
    pub direct_counter: Option<ExternId>,
    /// Attached direct meter.
    pub direct_meter: Option<ExternId>,
    /// v1model: the variable that the direct meter's colour is written to when the table is applied.
    pub meter_result: Option<VarId>,
    /// PNA `add_on_miss`: the data plane may add entries.
    pub add_on_miss: bool,
    /// v1model `support_timeout`, PNA `pna_idle_timeout`.
    pub idle_timeout: bool,
    /// Other properties as written: name, text.
    pub properties: Vec<(String, String)>,
    /// Where it is declared.
    pub loc: Loc,
}

impl Table {
    /// A table without entries, size or anything attached; its default action can be changed.
    pub fn new(preamble: Preamble, keys: Vec<Key>, actions: Vec<ActionRef>, default_action: ActionCall) -> Table {
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
            loc: Loc::default(),
        }
    }
}

impl Table {
    /// Whether entries carry a priority: some key is ternary, range or optional.
    pub fn has_priority(&self) -> bool {
        self.keys.iter().any(|key| key.kind.needs_priority())
    }
    /// Keys that are matched, i.e. all but selector keys, with their positions in `keys`.
    pub fn match_keys(&self) -> impl Iterator<Item = (usize, &Key)> {
        self.keys.iter().enumerate().filter(|(_, k)| k.kind != MatchKind::Selector)
    }
}
