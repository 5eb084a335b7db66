//! Rules of the IR that a pipeline can violate.

use crate::types::Type;

/// The rule that a pipeline violates.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ViolationKind {
    #[error("there is no {0}")]
    MissingEntity(String),
    #[error("the name is taken by another {0}")]
    DuplicateName(&'static str),
    #[error("the type is not one that the control plane sees as strings")]
    NoStrings,
    #[error("{0} is listed twice")]
    ListedTwice(String),
    #[error("{what} has type {found:?}, not {expected:?}")]
    Type { what: String, expected: Type, found: Type },
    #[error("{what} has type {found:?}, which is not {expected}")]
    TypeClass { what: String, expected: &'static str, found: Type },
    #[error("{what}: {found} where {expected} are needed")]
    Count { what: String, expected: usize, found: usize },
    #[error("width {0} is over the limit of {max} bits", max = crate::types::MAX_WIDTH)]
    TooWide(u32),
    #[error("{what} does not fit its type {ty:?}")]
    DoesNotFit { what: String, ty: Type },
    #[error("{what} is only for {place}")]
    WrongPlace { what: String, place: &'static str },
    #[error("the first error is not NoError")]
    NoErrorIsNotFirst,
    #[error("a header type has more than one varbit field")]
    TwoVarbits,
    #[error("{0} is not linked back: field {1} of the header is another variable")]
    FieldLink(String, u32),
    #[error("field {0} of the header is a variable that does not link back to it")]
    NotItsField(u32),
    #[error("{0} does not refer back to this {1}")]
    NotItsMember(String, &'static str),
    #[error("the control's role does not exist in this architecture")]
    WrongArch,
    #[error("the controls are not in the order of the architecture, each at most once")]
    ControlOrder,
    #[error("the value is defined twice: {0}")]
    DefinedTwice(String),
    #[error("{0} is used but never defined")]
    NeverDefined(String),
    #[error("{0} is used where its definition may not have run")]
    NotDominated(String),
    #[error("the block has no terminator")]
    NoTerminator,
    #[error("there are blocks but no entry")]
    NoEntry,
    #[error("the entry block must not have parameters")]
    EntryParams,
    #[error("bits {hi}..={lo} are not within {ty:?}")]
    BadSlice { hi: u32, lo: u32, ty: Type },
    #[error("{op} is not defined on {ty:?}")]
    BadOperand { op: &'static str, ty: Type },
    #[error("a cast from {from:?} to {to:?} is not defined")]
    BadCast { from: Type, to: Type },
    #[error("two cases have the constant {0}")]
    DuplicateCase(String),
    #[error("the table has no arm for {0}")]
    MissingArm(String),
    #[error("{0} is not an action of the table")]
    NotAnAction(String),
    #[error("the default action is @tableonly")]
    DefaultIsTableOnly,
    #[error("{0} is @defaultonly, but an entry has it")]
    EntryIsDefaultOnly(String),
    #[error("an action is both @tableonly and @defaultonly")]
    TableAndDefaultOnly,
    #[error("entry {entry}, key {key}: the match is not of the key's kind")]
    MatchKind { entry: usize, key: usize },
    #[error("entry {entry}, key {key}: {what}")]
    BadMatch { entry: usize, key: usize, what: &'static str },
    #[error("entry {0} has a priority, but the table's keys need none")]
    NeedlessPriority(usize),
    #[error("more than one key is lpm")]
    TwoLpmKeys,
    #[error("{what} is not {expected}")]
    ExternKind { what: String, expected: &'static str },
    #[error("{0} is attached to more than one table")]
    SharedDirect(String),
    #[error("the header has {0}")]
    Varbits(&'static str),
    #[error("`{func}` takes {expected}, not ({found})")]
    Args { func: &'static str, expected: String, found: String },
    #[error("`{func}` {expected}")]
    Object { func: &'static str, expected: String },
    #[error("the data type is nested too deep")]
    TooDeep,
}
