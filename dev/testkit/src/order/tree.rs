//! Trees of the generated programs.
//!
//! All programs have the same state ([`STATE`]), which exists for the whole execution and is sent
//! with the packet. Programs differ in their code.

/// A type of a variable or expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ty {
    /// `bit<8>`.
    Bits,
    /// `bit<4>`.
    Nibble,
    /// `bool`, only for expressions.
    Bool,
    /// `s_t`, a header of one field `v`.
    Header,
    /// `u_t`, a union of three `s_t`: `x`, `y`, `z`.
    Union,
    /// `p_t`, a struct of three `bit<8>`: `f`, `g`, `h`.
    Struct,
    /// `s_t[4]`.
    Stack,
}

/// Number of elements of a stack. Indices are masked, so none is out of range.
pub const STACK: usize = 4;
/// Number of cells of the register.
pub const CELLS: usize = 4;
/// Number of fields of a struct, and of members of a union.
pub const FIELDS: usize = 3;
/// Number of bytes of a packet. The initial state is computed from them.
pub const BYTES: usize = 10;

/// State variables: their expressions in controls, and their types.
pub const STATE: [(&str, Ty); 11] = [
    ("m.x0", Ty::Bits),
    ("m.x1", Ty::Bits),
    ("m.x2", Ty::Bits),
    ("m.x3", Ty::Bits),
    ("m.p0", Ty::Struct),
    ("m.p1", Ty::Struct),
    ("hdr.s", Ty::Stack),
    ("hdr.k0", Ty::Header),
    ("hdr.k1", Ty::Header),
    ("hdr.u0", Ty::Union),
    ("hdr.u1", Ty::Union),
];

/// Variable at the root of an l-value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// An element of [`STATE`].
    State(usize),
    /// A parameter of the enclosing code.
    Param(usize),
    /// A local variable of the enclosing code.
    Local(usize),
}

/// Selection of a part of an l-value.
#[derive(Clone, PartialEq, Debug)]
pub enum PathStep {
    /// A field of a struct or a union, or field 0 of a header.
    Field(usize),
    /// An element of a stack; the index is masked to its size.
    Index(Expr),
    /// Bits `[lo+3:lo]`.
    Slice(u8),
    /// Bits `[e & 3 +: 4]`.
    SliceAt(Expr),
}

/// An l-value with its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Root variable.
    pub root: Root,
    /// Type of the root.
    pub of: Ty,
    /// Selections from the root to the part.
    pub steps: Vec<PathStep>,
    /// Type of the part.
    pub ty: Ty,
}

/// An operator on `bit<8>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Add,
    Sub,
    And,
    Or,
    Xor,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A `bit<8>` literal.
    Const(u8),
    /// A `bool` literal.
    Bool(bool),
    /// Value of an l-value.
    Read(Place),
    /// `(bit<8>)place` of a nibble.
    Widen(Place),
    /// A binary operation on `bit<8>`.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `(a ++ b)[11:4]`.
    Concat(Box<Expr>, Box<Expr>),
    /// `(bit<8>)(a[b & 3 +: 4])`.
    SliceAt(Box<Expr>, Box<Expr>),
    /// `a ? b : c` of any type.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a == b`, or with `false` `a != b`, for two values of one type.
    Equal(bool, Box<Expr>, Box<Expr>),
    /// `a < b`.
    Less(Box<Expr>, Box<Expr>),
    /// `a && b`, or `a || b`.
    Logic(bool, Box<Expr>, Box<Expr>),
    /// `!a`.
    Not(Box<Expr>),
    /// Validity of a header or a union.
    IsValid(Place),
    /// `t.apply().hit`, or with `false` `miss`.
    Hit(usize, bool),
    /// Call of a function.
    Call(Call),
    /// `(p_t){g = a, f = b, h = c}`: fields in the order of the text.
    Struct(Vec<(usize, Expr)>),
    /// `(s_t){a}`.
    Header(Box<Expr>),
    /// `(T){#}` of a header or a union.
    Invalid(Ty),
    /// A field of a struct, or field 0 of a header.
    Part(Box<Expr>, usize),
}

/// A call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Callee.
    pub callee: Callee,
    /// Index of the parameter and argument, in the order of the text.
    pub args: Vec<(usize, Arg)>,
    /// Whether arguments are named. If not, they are in the order of the parameters.
    pub named: bool,
}

/// Callee of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// One of [`Program::codes`].
    Code(usize),
    /// `r.read(result, index)`: an `out` and an `in` parameter.
    RegisterRead,
    /// `r.write(index, value)`: two `in` parameters.
    RegisterWrite,
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// Argument of an `in` parameter.
    In(Expr),
    /// Argument of an `out` or `inout` parameter.
    Place(Place),
    /// `_` for an `out` parameter.
    Nothing,
}

/// Direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Dir {
    In,
    Out,
    InOut,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Direction.
    pub dir: Dir,
    /// Type.
    pub ty: Ty,
    /// Default value of an `in` parameter of type `bit<8>`.
    pub default: Option<u8>,
}

/// Kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeKind {
    /// A function: accesses only its parameters.
    Function,
    /// An action: also accesses the state, and may exit.
    Action,
    /// An applied control: accesses only its parameters, and may exit.
    Control,
}

/// A function, an action or a control.
#[derive(Clone, PartialEq, Debug)]
pub struct Code {
    /// Kind of the code.
    pub kind: CodeKind,
    /// Parameters.
    pub params: Vec<Param>,
    /// Type of the result.
    pub result: Option<Ty>,
    /// Statements. Code with a result ends with a return.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Exact keys, of which only the lowest bit is used.
    pub keys: Vec<Expr>,
    /// Distinct actions with their arguments. The last one is the default action.
    pub actions: Vec<Call>,
    /// Entries: values of the keys, and index of the action.
    pub entries: Vec<(Vec<u8>, usize)>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `place = e`, or for a nibble `place = (bit<4>)(e)`.
    Assign(Place, Expr),
    /// `place += e` and similar, on a `bit<8>`.
    Compound(Op, Place, Expr),
    /// Declaration of a variable.
    Var(usize, Ty, Expr),
    /// A call that discards its result.
    Call(Call),
    /// `h.setValid()` or `h.setInvalid()`.
    SetValid(Place, bool),
    /// `s.push_front(n)` or `s.pop_front(n)`.
    Shift(Place, bool, u8),
    /// A conditional.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// A switch on the two lowest bits: cases by value, and the default case.
    Switch(Expr, Vec<(u8, Vec<Stmt>)>, Vec<Stmt>),
    /// `for (bit<8> l in (a & 3) .. (b & 3))`.
    ForIn(usize, Expr, Expr, Vec<Stmt>),
    /// `for (bit<8> l = 0; l < n && e; l = l + 1)`.
    For(usize, u8, Expr, Vec<Stmt>),
    /// `t.apply();`, or a switch over the action that ran, with the statements for each action.
    Apply(usize, Vec<Vec<Stmt>>),
    /// Returns from the code.
    Return(Option<Expr>),
    /// Exits the ingress control.
    Exit,
}

/// A generated program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Functions, actions and controls. Each calls only earlier ones.
    pub codes: Vec<Code>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Statements of the parser.
    pub parser: Vec<Stmt>,
    /// Two values of the parser's select, which uses their lowest bits. If these are 1 and 0, the
    /// parser changes `m.x3`, otherwise `m.x2`.
    pub select: [Expr; 2],
    /// Statements of the ingress control.
    pub ingress: Vec<Stmt>,
}

impl Place {
    /// Creates an l-value of a whole variable.
    pub fn root(root: Root, ty: Ty) -> Place {
        Place { root, of: ty, steps: Vec::new(), ty }
    }

    /// Selects a part.
    pub fn part(mut self, step: PathStep) -> Place {
        self.ty = match (&step, self.ty) {
            (PathStep::Slice(_) | PathStep::SliceAt(_), _) => Ty::Nibble,
            (PathStep::Index(_), _) | (PathStep::Field(_), Ty::Union) => Ty::Header,
            (PathStep::Field(_), _) => Ty::Bits,
        };
        self.steps.push(step);
        self
    }
}

impl Expr {
    /// Returns the type of the expression.
    pub fn ty(&self, codes: &[Code]) -> Ty {
        match self {
            Expr::Const(_) | Expr::Widen(_) | Expr::Binary(..) | Expr::Concat(..) | Expr::SliceAt(..) => Ty::Bits,
            Expr::Bool(_) | Expr::Equal(..) | Expr::Less(..) | Expr::Logic(..) | Expr::Not(_) => Ty::Bool,
            Expr::IsValid(_) | Expr::Hit(..) => Ty::Bool,
            Expr::Read(place) => place.ty,
            Expr::Mux(_, yes, _) => yes.ty(codes),
            Expr::Call(call) => match call.callee {
                Callee::Code(n) => codes[n].result.unwrap_or(Ty::Bits),
                Callee::RegisterRead | Callee::RegisterWrite => Ty::Bits,
            },
            Expr::Struct(_) => Ty::Struct,
            Expr::Header(_) => Ty::Header,
            Expr::Invalid(ty) => *ty,
            Expr::Part(..) => Ty::Bits,
        }
    }
}
