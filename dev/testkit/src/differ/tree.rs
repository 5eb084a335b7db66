//! The tree of a made program: what the generator builds, the printer prints and the shrinker cuts.
//!
//! It holds no more structure than those three need. An expression knows its type, so that it can be replaced by another one of that
//! type; a statement's text is kept in pieces between its expressions.

use ir::Arch;

/// A scalar type of a made program.
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
    /// Width in bits.
    pub fn width(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Bit(w) | Ty::Int(w) => w,
        }
    }
}

/// The greatest value of that many bits, as far as 128 bits hold it.
pub fn ones(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// Text with expressions in it.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// Printed as it is.
    Text(String),
    /// Can be replaced by another expression of its type.
    Expr(Expr),
}

/// Makes a text part.
pub fn text(text: impl Into<String>) -> Part {
    Part::Text(text.into())
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Its type.
    pub ty: Ty,
    /// What it is.
    pub kind: ExprKind,
}

/// What an expression is.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A literal; wider ones than 128 bits have zeros in front.
    Lit(u128),
    /// Something with a name that has the type.
    Place(String),
    /// An operator in front.
    Unary(&'static str, Box<Expr>),
    /// An operator in between; operands may have other types than the result.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// Bits `hi..=lo`.
    Slice(Box<Expr>, u32, u32),
    /// A cast that P4 allows from the operand's type.
    Cast(Box<Expr>),
    /// `c ? a : b`.
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Anything else.
    Mixed(Vec<Part>),
}

impl Expr {
    /// A literal, cut to its type.
    pub fn lit(ty: Ty, value: u128) -> Expr {
        Expr { ty, kind: ExprKind::Lit(value & ones(ty.width())) }
    }

    /// Something with a name.
    pub fn place(ty: Ty, name: impl Into<String>) -> Expr {
        Expr { ty, kind: ExprKind::Place(name.into()) }
    }

    /// A cast.
    pub fn cast(self, ty: Ty) -> Expr {
        Expr { ty, kind: ExprKind::Cast(Box::new(self)) }
    }

    /// The value in another type, by as many casts as P4 wants.
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

    /// Whether it is a literal.
    pub fn is_lit(&self) -> bool {
        matches!(self.kind, ExprKind::Lit(_))
    }
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// A simple statement, without its semicolon.
    Line(Vec<Part>),
    /// A conditional.
    If {
        /// A bool.
        cond: Expr,
        /// When true.
        then: Vec<Stmt>,
        /// When false; may be empty.
        els: Vec<Stmt>,
    },
    /// A switch over an expression, or over `t.apply().action_run`.
    Switch {
        /// What is looked at.
        on: Vec<Part>,
        /// Label and statements of each case.
        cases: Vec<(String, Vec<Stmt>)>,
        /// The default case, if there is one.
        default: Option<Vec<Stmt>>,
    },
    /// `for (bit<8> name = 0; name < limit; name = name + 1)`.
    For {
        /// The loop's variable.
        name: String,
        /// How often.
        limit: Expr,
        /// What.
        body: Vec<Stmt>,
    },
}

impl Stmt {
    /// An assignment.
    pub fn assign(place: &str, value: Expr) -> Stmt {
        Stmt::Line(vec![text(format!("{place} = ")), Part::Expr(value)])
    }

    /// A statement without expressions.
    pub fn plain(line: impl Into<String>) -> Stmt {
        Stmt::Line(vec![text(line)])
    }
}

/// A field of a header type.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type; of a varbit field, its greatest width as `Bit`.
    pub ty: Ty,
    /// Whether it is `varbit`.
    pub varbit: bool,
}

/// A header type, struct or union; of a union, the fields' types are header types by number.
#[derive(Clone, PartialEq, Debug)]
pub struct HeaderType {
    /// Name.
    pub name: String,
    /// Fields in order.
    pub fields: Vec<Field>,
}

impl HeaderType {
    /// Whether one of its fields is a varbit.
    pub fn has_varbit(&self) -> bool {
        self.fields.iter().any(|field| field.varbit)
    }
}

/// A member of `headers_t`.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// Name within `hdr`.
    pub name: String,
    /// What it is.
    pub shape: Shape,
}

/// What a member of `headers_t` is; header types by number.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// A header.
    Single(usize),
    /// A header stack and its size.
    Stack(usize, u32),
    /// A union; members are `m0`, `m1`, ... of these header types.
    Union(Vec<usize>),
}

/// A step of a parser state.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `extract(place)`.
    Extract {
        /// As written: `hdr.h0`, `hdr.s0.next`, `hdr.u0.m1`.
        place: String,
        /// Its type.
        header: usize,
        /// The size of the varbit field, if there is one.
        size: Option<Expr>,
    },
    /// `advance` by a number of bits.
    Advance(Expr),
    /// Anything else.
    Other(Stmt),
}

/// What a case of a select asks of one key.
#[derive(Clone, PartialEq, Debug)]
pub enum Keyset {
    /// A value.
    Value(u128),
    /// A value under a mask.
    Mask(u128, u128),
    /// A range.
    Range(u128, u128),
    /// A value set, by name: the only key then.
    Set(String),
    /// Anything.
    Any,
}

/// Where a parser state goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// The keys of the select; none: the first case is always taken.
    pub keys: Vec<Expr>,
    /// Key sets, and the state's name.
    pub cases: Vec<(Vec<Keyset>, String)>,
}

/// A parser state.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Name.
    pub name: String,
    /// Steps.
    pub ops: Vec<Op>,
    /// Where it goes.
    pub next: Transition,
}

/// A parameter of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// `in`, `out`, `inout` or nothing.
    pub direction: &'static str,
    /// Type.
    pub ty: Ty,
    /// Name.
    pub name: String,
}

/// An action.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// Name.
    pub name: String,
    /// Parameters, those with a direction first.
    pub params: Vec<Param>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// A key of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// Its value.
    pub value: Expr,
    /// `exact`, `lpm`, ...
    pub kind: &'static str,
    /// Its control-plane name.
    pub name: String,
}

/// A table. Lines that refer to other things are kept apart, so that each can go.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Keys.
    pub keys: Vec<Key>,
    /// Actions as they stand in the list: annotations, name, bound arguments.
    pub actions: Vec<(String, Vec<Part>)>,
    /// Properties as written, without the semicolon; the default action is one of them.
    pub properties: Vec<String>,
    /// Entries as written, without the semicolon; whether they are `const`.
    pub entries: (bool, Vec<String>),
}

/// What a control declares and does.
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

/// A program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Which architecture.
    pub arch: Arch,
    /// Values that constants, entries and packets share; each is cut to the width that it is used at.
    pub pool: Vec<u128>,
    /// Types besides headers, as written.
    pub types: Vec<String>,
    /// Header types.
    pub headers: Vec<HeaderType>,
    /// Members of `headers_t`.
    pub instances: Vec<Instance>,
    /// Members of `metadata_t`: annotation, type and name as written.
    pub metadata: Vec<String>,
    /// Value sets of the parser: declarations as written.
    pub value_sets: Vec<String>,
    /// Parser states; the first is `start`.
    pub states: Vec<State>,
    /// v1model: body of VerifyChecksum.
    pub verify: Vec<Stmt>,
    /// v1model's Ingress, PNA's main control.
    pub ingress: Control,
    /// v1model's Egress.
    pub egress: Control,
    /// v1model: body of ComputeChecksum.
    pub compute: Vec<Stmt>,
    /// PNA: declarations of the deparser. v1model's has none.
    pub deparser_declarations: Vec<String>,
    /// Body of the deparser.
    pub deparser: Vec<Stmt>,
}
