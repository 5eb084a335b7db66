//! Tree of a generated program. The generator builds it, the printer prints it, and the shrinker
//! reduces it.
//!
//! It has only the structure that these three need. An expression has its type, so that it can be
//! replaced by another one of that type. The text of a statement is stored in pieces between its
//! expressions.

use ir::Arch;

/// A scalar type of a generated program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Ty {
    /// `bool`.
    Bool,
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
}

impl Ty {
    /// Returns the width in bits.
    pub fn width(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Bit(w) | Ty::Int(w) => w,
        }
    }
}

/// Returns the largest value of `width` bits, limited to 128 bits.
pub fn ones(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// Text with embedded expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum TextPart {
    /// Text that is printed unchanged.
    Text(String),
    /// An expression, replaceable by another one of its type.
    Expr(Expr),
}

/// Creates a text part.
pub fn text(text: impl Into<String>) -> TextPart {
    TextPart::Text(text.into())
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Type of the expression.
    pub ty: Ty,
    /// Kind of the expression.
    pub kind: ExprKind,
}

/// Kind of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A literal. Bits above the lowest 128 are zero.
    Lit(u128),
    /// A named variable or field of that type.
    Place(String),
    /// A unary operator.
    Unary(&'static str, Box<Expr>),
    /// A binary operator. Operands may have other types than the result.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// Bits `hi..=lo`.
    Slice(Box<Expr>, u32, u32),
    /// A cast that P4 allows from the operand's type.
    Cast(Box<Expr>),
    /// `c ? a : b`.
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Any other expression.
    Mixed(Vec<TextPart>),
}

impl Expr {
    /// Creates a literal, truncated to its type.
    pub fn lit(ty: Ty, value: u128) -> Expr {
        Expr { ty, kind: ExprKind::Lit(value & ones(ty.width())) }
    }

    /// Creates a reference to a named variable or field.
    pub fn place(ty: Ty, name: impl Into<String>) -> Expr {
        Expr { ty, kind: ExprKind::Place(name.into()) }
    }

    /// Creates a cast.
    pub fn cast(self, ty: Ty) -> Expr {
        Expr { ty, kind: ExprKind::Cast(Box::new(self)) }
    }

    /// Converts the value to another type, by the sequence of casts that P4 requires.
    pub fn to(self, ty: Ty) -> Expr {
        match (self.ty, ty) {
            (from, to) if from == to => self,
            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Int(_), Ty::Int(_)) | (Ty::Bit(1), Ty::Bool) | (Ty::Bool, Ty::Bit(1)) => {
                self.cast(ty)
            }
            (Ty::Bit(_), Ty::Bool) => {
                let bit = Expr { ty: Ty::Bit(1), kind: ExprKind::Slice(Box::new(self), 0, 0) };
                bit.cast(Ty::Bool)
            }
            (Ty::Int(w), to) => self.cast(Ty::Bit(w)).to(to),
            (Ty::Bit(_), Ty::Int(w)) => self.to(Ty::Bit(w)).cast(ty),
            (Ty::Bool, to) => self.cast(Ty::Bit(1)).to(to),
        }
    }

    /// Returns whether the expression is a literal.
    pub fn is_lit(&self) -> bool {
        matches!(self.kind, ExprKind::Lit(_))
    }
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// A simple statement, without its semicolon.
    Line(Vec<TextPart>),
    /// A conditional.
    If {
        /// Condition of type bool.
        cond: Expr,
        /// Statements if true.
        then: Vec<Stmt>,
        /// Statements if false; may be empty.
        els: Vec<Stmt>,
    },
    /// A switch over an expression, or over `t.apply().action_run`.
    Switch {
        /// Expression that is matched.
        on: Vec<TextPart>,
        /// Label and statements of each case.
        cases: Vec<(String, Vec<Stmt>)>,
        /// Default case, if there is one.
        default: Option<Vec<Stmt>>,
    },
    /// `for (bit<8> name = 0; name < limit; name = name + 1)`.
    For {
        /// Loop variable.
        name: String,
        /// Number of iterations.
        limit: Expr,
        /// Loop body.
        body: Vec<Stmt>,
    },
}

impl Stmt {
    /// Creates an assignment.
    pub fn assign(place: &str, value: Expr) -> Stmt {
        Stmt::Line(vec![text(format!("{place} = ")), TextPart::Expr(value)])
    }

    /// Creates a statement without expressions.
    pub fn plain(line: impl Into<String>) -> Stmt {
        Stmt::Line(vec![text(line)])
    }
}

/// A field of a header type.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type. For a varbit field, its maximum width as `Bit`.
    pub ty: Ty,
    /// Whether the field is `varbit`.
    pub varbit: bool,
}

/// A header type, struct or union. For a union, the fields' types are indices of header types.
#[derive(Clone, PartialEq, Debug)]
pub struct HeaderType {
    /// Name of the type.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<Field>,
}

impl HeaderType {
    /// Returns whether a field is a varbit.
    pub fn has_varbit(&self) -> bool {
        self.fields.iter().any(|field| field.varbit)
    }
}

/// A member of `headers_t`.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// Name in `hdr`.
    pub name: String,
    /// Kind of the member.
    pub shape: Shape,
}

/// Kind of a member of `headers_t`, with indices of header types.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// A header.
    Single(usize),
    /// A header stack with its size.
    Stack(usize, u32),
    /// A union with members `m0`, `m1`, ... of these header types.
    Union(Vec<usize>),
}

/// An operation of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `extract(place)`.
    Extract {
        /// Header as written: `hdr.h0`, `hdr.s0.next`, `hdr.u0.m1`.
        place: String,
        /// Index of the header type.
        header: usize,
        /// Size of the varbit field, if there is one.
        size: Option<Expr>,
    },
    /// `advance` by a number of bits.
    Advance(Expr),
    /// Any other statement.
    Other(Stmt),
}

/// Match of a select case on one key.
#[derive(Clone, PartialEq, Debug)]
pub enum Keyset {
    /// Equal to a value.
    Value(u128),
    /// Equal to a value under a mask.
    Mask(u128, u128),
    /// In a range.
    Range(u128, u128),
    /// In a value set, given by name. It must be the only key.
    Set(String),
    /// Any value.
    Any,
}

/// Transition of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// Keys of the select. Without keys, the first case is always taken.
    pub keys: Vec<Expr>,
    /// Key sets and target state of each case.
    pub cases: Vec<(Vec<Keyset>, String)>,
}

/// A parser state.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Name of the state.
    pub name: String,
    /// Operations in order.
    pub ops: Vec<Op>,
    /// Transition to the next state.
    pub next: Transition,
}

/// A parameter of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Direction: `in`, `out`, `inout`, or empty.
    pub direction: &'static str,
    /// Type of the parameter.
    pub ty: Ty,
    /// Name of the parameter.
    pub name: String,
}

/// An action.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// Name of the action.
    pub name: String,
    /// Parameters, those with a direction first.
    pub params: Vec<Param>,
    /// Statements.
    pub body: Vec<Stmt>,
}

/// A key of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// Key expression.
    pub value: Expr,
    /// Match kind: `exact`, `lpm`, ...
    pub kind: &'static str,
    /// Control-plane name.
    pub name: String,
}

/// A table. Lines that refer to other objects are separate, so that the shrinker can remove each.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Keys.
    pub keys: Vec<Key>,
    /// Actions as written in the list: annotations and name, bound arguments.
    pub actions: Vec<(String, Vec<TextPart>)>,
    /// Properties as written, without the semicolon. The default action is one of them.
    pub properties: Vec<String>,
    /// Whether the entries are `const`, and the entries as written, without the semicolon.
    pub entries: (bool, Vec<String>),
}

/// Declarations and body of a control.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Control {
    /// Extern objects and variables, as written.
    pub declarations: Vec<String>,
    /// Actions.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The body of `apply`.
    pub body: Vec<Stmt>,
}

/// A generated program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Architecture.
    pub arch: Arch,
    /// Values shared by constants, entries and packets. Each is truncated to the width at which it
    /// is used.
    pub pool: Vec<u128>,
    /// Types other than headers, as written.
    pub types: Vec<String>,
    /// Header types.
    pub headers: Vec<HeaderType>,
    /// Members of `headers_t`.
    pub instances: Vec<Instance>,
    /// Members of `metadata_t`: annotation, type and name as written.
    pub metadata: Vec<String>,
    /// Declarations of the parser's value sets, as written.
    pub value_sets: Vec<String>,
    /// Parser states; the first is `start`.
    pub states: Vec<State>,
    /// v1model: body of VerifyChecksum.
    pub verify: Vec<Stmt>,
    /// Ingress of v1model, or main control of PNA.
    pub ingress: Control,
    /// Egress of v1model.
    pub egress: Control,
    /// v1model: body of ComputeChecksum.
    pub compute: Vec<Stmt>,
    /// PNA: declarations of the deparser. Empty for v1model.
    pub deparser_declarations: Vec<String>,
    /// Body of the deparser.
    pub deparser: Vec<Stmt>,
}
