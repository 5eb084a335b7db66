//! The programs, as trees.
//!
//! All programs have the same state ([`STATE`]), which outlives everything and leaves with the
//! packet; what differs is the code.

/// A type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ty {
    /// `bit<8>`
    Bits,
    /// `bit<4>`
    Nibble,
    /// `bool`, of expressions only.
    Bool,
    /// `s_t`, a header of one field `v`.
    Header,
    /// `u_t`, a union of three `s_t`: `x`, `y`, `z`.
    Union,
    /// `p_t`, a struct of three `bit<8>`: `f`, `g`, `h`.
    Struct,
    /// `s_t[4]`
    Stack,
}

/// Elements of a stack. Indices are masked, so none is out of range.
pub const STACK: usize = 4;
/// Cells of the register.
pub const CELLS: usize = 4;
/// Fields of a struct, and members of a union.
pub const FIELDS: usize = 3;
/// Bytes of a packet, of which the state is made at first.
pub const BYTES: usize = 10;

/// The state: expressions that stand for it in controls, and their types.
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

/// What an l-value begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// Of [`STATE`].
    State(usize),
    /// A parameter of the code it is in.
    Param(usize),
    /// A local variable of it.
    Local(usize),
}

/// From an l-value to a part of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Of a struct, a union or (0) a header.
    Field(usize),
    /// Of a stack; masked to its size.
    Index(Expr),
    /// `[lo+3:lo]`
    Slice(u8),
    /// `[e & 3 +: 4]`
    SliceAt(Expr),
}

/// An l-value, and its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// What it begins with.
    pub root: Root,
    /// The type of that.
    pub of: Ty,
    /// From there.
    pub steps: Vec<Step>,
    /// What is there.
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
    /// A `bit<8>`.
    Const(u8),
    /// A `bool`.
    Bool(bool),
    /// The value there.
    Read(Place),
    /// `(bit<8>)place`, of a nibble.
    Widen(Place),
    /// On `bit<8>`.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `(a ++ b)[11:4]`
    Concat(Box<Expr>, Box<Expr>),
    /// `(bit<8>)(a[b & 3 +: 4])`
    SliceAt(Box<Expr>, Box<Expr>),
    /// `a ? b : c`, of any type.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Of two values of one type; `false`: `!=`.
    Equal(bool, Box<Expr>, Box<Expr>),
    /// `a < b`
    Less(Box<Expr>, Box<Expr>),
    /// `a && b`, or `a || b`.
    Logic(bool, Box<Expr>, Box<Expr>),
    /// `!a`
    Not(Box<Expr>),
    /// Of a header or a union.
    IsValid(Place),
    /// `t.apply().hit`; `false`: `miss`.
    Hit(usize, bool),
    /// Of a function.
    Call(Call),
    /// `(p_t){g = a, f = b, h = c}`: fields in the order of the text.
    Struct(Vec<(usize, Expr)>),
    /// `(s_t){a}`
    Header(Box<Expr>),
    /// `(T){#}` of a header or a union.
    Invalid(Ty),
    /// Of a struct, or (0) of a header.
    Part(Box<Expr>, usize),
}

/// A call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// Number of the parameter and its argument, in the order of the text.
    pub args: Vec<(usize, Arg)>,
    /// Whether arguments are named; if not, they are in the order of the parameters.
    pub named: bool,
}

/// What is called.
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
    /// For an `in` parameter.
    In(Expr),
    /// For an `out` or `inout` parameter.
    Place(Place),
    /// `_`, for an `out` parameter.
    Nothing,
}

/// A direction.
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
    /// Its direction.
    pub dir: Dir,
    /// Its type.
    pub ty: Ty,
    /// Of an `in` parameter of type `bit<8>`: what it is without argument.
    pub default: Option<u8>,
}

/// What kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Has parameters only.
    Function,
    /// Has the state besides, and may exit.
    Action,
    /// A control that is applied: has parameters only, and may exit.
    Control,
}

/// A function, an action or a control.
#[derive(Clone, PartialEq, Debug)]
pub struct Code {
    /// Which.
    pub kind: Kind,
    /// Its parameters.
    pub params: Vec<Param>,
    /// What it gives.
    pub result: Option<Ty>,
    /// Its body; one that gives something ends with a return.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its exact keys, of which the lowest bit counts.
    pub keys: Vec<Expr>,
    /// Its actions, each once, with their arguments; the last one is the default.
    pub actions: Vec<Call>,
    /// For some values of the keys, which action.
    pub entries: Vec<(Vec<u8>, usize)>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `place = e`; to a nibble `place = (bit<4>)(e)`.
    Assign(Place, Expr),
    /// `place += e` and the like, of a `bit<8>`.
    Compound(Op, Place, Expr),
    /// A variable comes into being.
    Var(usize, Ty, Expr),
    /// A call whose result is not used.
    Call(Call),
    /// `h.setValid()` or `h.setInvalid()`
    SetValid(Place, bool),
    /// `s.push_front(n)` or `s.pop_front(n)`
    Shift(Place, bool, u8),
    /// A condition.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// On the two lowest bits: cases by value, and the rest.
    Switch(Expr, Vec<(u8, Vec<Stmt>)>, Vec<Stmt>),
    /// `for (bit<8> l in (a & 3) .. (b & 3))`
    ForIn(usize, Expr, Expr, Vec<Stmt>),
    /// `for (bit<8> l = 0; l < n && e; l = l + 1)`
    For(usize, u8, Expr, Vec<Stmt>),
    /// `t.apply();`, or a switch over the action that ran: what follows each.
    Apply(usize, Vec<Vec<Stmt>>),
    /// Ends the code.
    Return(Option<Expr>),
    /// Ends all code of the ingress control.
    Exit,
}

/// A program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Functions, actions and controls; each calls earlier ones only.
    pub codes: Vec<Code>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What the parser does with the state.
    pub parser: Vec<Stmt>,
    /// Its select: two values, whose lowest bits decide. Where they are 1 and 0, `m.x3` is
    /// changed, and otherwise `m.x2`.
    pub select: [Expr; 2],
    /// What the ingress control does.
    pub ingress: Vec<Stmt>,
}

impl Place {
    /// The place itself.
    pub fn root(root: Root, ty: Ty) -> Place {
        Place { root, of: ty, steps: Vec::new(), ty }
    }

    /// A part of it.
    pub fn part(mut self, step: Step) -> Place {
        self.ty = match (&step, self.ty) {
            (Step::Slice(_) | Step::SliceAt(_), _) => Ty::Nibble,
            (Step::Index(_), _) | (Step::Field(_), Ty::Union) => Ty::Header,
            (Step::Field(_), _) => Ty::Bits,
        };
        self.steps.push(step);
        self
    }
}

impl Expr {
    /// Its type.
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
