//! The specification, read aloud: programs evaluated as trees, on plain values. Statements and
//! expressions are here, calls in [`super::calls`].
//!
//! Nothing here knows the compiler, nor any notion of its IR; where the specification leaves
//! values open, ARCHITECTURE.md says what they are ("Undefined is fixed").

use super::tree::{BYTES, CELLS, Expr, Op, Place, Program, Root, STACK, Step, Stmt};
use super::value::{Select, Value, output, state};
use std::collections::HashMap;

/// A wrong reading of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Arguments from right to left.
    ArgumentsReversed,
    /// Arguments and fields in the order of their declaration, and copied out in it.
    Declared,
    /// Arguments are copied out from right to left.
    CopyOutReversed,
    /// The l-value of an argument is found when it is copied out, not saved before.
    LateIndex,
    /// An `exit` copies nothing out.
    ExitCopiesNothing,
    /// Operands from right to left.
    OperandsReversed,
    /// `&&` and `||` evaluate both sides.
    EagerLogic,
    /// `?:` evaluates both values.
    EagerMux,
    /// An assignment evaluates its right side first.
    RightFirst,
    /// `A += B` is `A = A + B`, with `A` evaluated twice.
    CompoundTwice,
    /// The keys of a table from right to left.
    KeysReversed,
    /// A member of a union that becomes invalid leaves the others as they are.
    UnionAlone,
}

impl Wrong {
    /// All of them.
    pub const ALL: [Wrong; 12] = [
        Wrong::ArgumentsReversed,
        Wrong::Declared,
        Wrong::CopyOutReversed,
        Wrong::LateIndex,
        Wrong::ExitCopiesNothing,
        Wrong::OperandsReversed,
        Wrong::EagerLogic,
        Wrong::EagerMux,
        Wrong::RightFirst,
        Wrong::CompoundTwice,
        Wrong::KeysReversed,
        Wrong::UnionAlone,
    ];
}

/// An `exit` was executed.
#[derive(Clone, Copy, Debug)]
pub struct Exit;

/// What evaluation gives, unless it exits.
pub type Run<T> = Result<T, Exit>;

/// How statements end.
pub enum Flow {
    /// The next one follows.
    Next,
    /// The code returns.
    Return(Option<Value>),
}

/// Parameters and local variables of code that runs.
#[derive(Clone, Default, Debug)]
pub struct Frame {
    pub(super) params: Vec<Value>,
    pub(super) locals: HashMap<usize, Value>,
}

/// An l-value, evaluated: where it begins, in which frame, and what is selected.
#[derive(Clone, Debug)]
pub struct Path {
    root: Root,
    frame: usize,
    selects: Vec<Select>,
}

/// A program with its state.
pub struct Machine<'p> {
    pub(super) program: &'p Program,
    state: Vec<Value>,
    pub(super) cells: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    pub(super) wrong: Option<Wrong>,
}

/// What leaves for packets in order; `None`: the right reading.
pub fn evaluate(program: &Program, packets: &[[u8; BYTES]], wrong: Option<Wrong>) -> Vec<Vec<u8>> {
    let frames = vec![Frame::default()];
    let mut machine = Machine { program, state: Vec::new(), cells: vec![0; CELLS], frames, wrong };
    packets.iter().map(|bytes| machine.packet(bytes)).collect()
}

impl Machine<'_> {
    fn packet(&mut self, bytes: &[u8; BYTES]) -> Vec<u8> {
        self.state = state(bytes);
        let program = self.program;
        // Nothing in a parser exits.
        let _ = self.parser(program);
        self.frames = vec![Frame::default()];
        // "Terminates the execution of all the blocks currently executing": egress follows.
        let _ = self.stmts(&program.ingress);
        self.frames = vec![Frame::default()];
        output(&self.state, &self.cells)
    }

    fn parser(&mut self, program: &Program) -> Run<()> {
        self.stmts(&program.parser)?;
        let first = self.expr(&program.select[0])?.bits() & 1;
        let second = self.expr(&program.select[1])?.bits() & 1;
        let (at, change) = if (first, second) == (1, 0) { (3, 0x55) } else { (2, 0xaa) };
        self.state[at] = Value::Bits(self.state[at].bits() ^ change);
        Ok(())
    }

    pub(super) fn is(&self, wrong: Wrong) -> bool {
        self.wrong == Some(wrong)
    }

    /// "Evaluated to an l-value": its indices from left to right.
    pub(super) fn place(&mut self, place: &Place) -> Run<Path> {
        self.steps(place.root, &place.steps)
    }

    fn steps(&mut self, root: Root, steps: &[Step]) -> Run<Path> {
        let mut selects = Vec::new();
        for step in steps {
            selects.push(match step {
                Step::Field(n) => Select::Field(*n),
                Step::Index(index) => Select::Element(usize::from(self.expr(index)?.bits()) % STACK),
                Step::Slice(lo) => Select::Nibble(*lo),
                Step::SliceAt(lo) => Select::Nibble(self.expr(lo)?.bits() & 3),
            });
        }
        Ok(Path { root, frame: self.frames.len() - 1, selects })
    }

    fn root(&mut self, path: &Path) -> &mut Value {
        let frame = &mut self.frames[path.frame];
        match path.root {
            Root::State(n) => &mut self.state[n],
            Root::Param(n) => &mut frame.params[n],
            Root::Local(n) => frame.locals.get_mut(&n).expect("a local is declared before it is used"),
        }
    }

    pub(super) fn get(&mut self, path: &Path) -> Value {
        self.root(path).get(&path.selects)
    }

    pub(super) fn set(&mut self, path: &Path, value: Value) {
        let union_alone = self.is(Wrong::UnionAlone);
        self.root(path).set(&path.selects, value, union_alone);
    }

    /// The value at an l-value. A bit slice is an operator on a value, which is evaluated before
    /// the place of the cut.
    fn read(&mut self, place: &Place) -> Run<Value> {
        if let Some((Step::SliceAt(lo), steps)) = place.steps.split_last() {
            let path = self.steps(place.root, steps)?;
            let whole = self.get(&path).bits();
            return Ok(Value::Bits(whole >> (self.expr(lo)?.bits() & 3) & 15));
        }
        let path = self.place(place)?;
        Ok(self.get(&path))
    }

    /// Two expressions, "left-to-right as they appear in the source program".
    fn pair(&mut self, a: &Expr, b: &Expr) -> Run<(Value, Value)> {
        if self.is(Wrong::OperandsReversed) {
            let b = self.expr(b)?;
            return Ok((self.expr(a)?, b));
        }
        let a = self.expr(a)?;
        Ok((a, self.expr(b)?))
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Run<Value> {
        Ok(match expr {
            Expr::Const(bits) => Value::Bits(*bits),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Read(place) | Expr::Widen(place) => self.read(place)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = self.pair(a, b)?;
                Value::Bits(apply(*op, a.bits(), b.bits()))
            }
            Expr::Concat(a, b) => {
                let (a, b) = self.pair(a, b)?;
                Value::Bits(a.bits() << 4 | b.bits() >> 4)
            }
            Expr::SliceAt(a, b) => {
                let (a, b) = self.pair(a, b)?;
                Value::Bits(a.bits() >> (b.bits() & 3) & 15)
            }
            Expr::Mux(condition, yes, no) => self.mux(condition, yes, no)?,
            Expr::Equal(equal, a, b) => {
                let (a, b) = self.pair(a, b)?;
                Value::Bool((a == b) == *equal)
            }
            Expr::Less(a, b) => {
                let (a, b) = self.pair(a, b)?;
                Value::Bool(a.bits() < b.bits())
            }
            Expr::Logic(and, a, b) => self.logic(*and, a, b)?,
            Expr::Not(a) => Value::Bool(!self.expr(a)?.truth()),
            Expr::IsValid(place) => {
                let path = self.place(place)?;
                Value::Bool(self.get(&path).is_valid())
            }
            Expr::Hit(table, hit) => Value::Bool(self.apply(*table)?.0 == *hit),
            Expr::Call(call) => self.call(call)?.expect("a function that gives something"),
            Expr::Struct(fields) => self.fields(fields)?,
            Expr::Header(field) => Value::Header(Some(self.expr(field)?.bits())),
            Expr::Invalid(ty) => Value::initial(*ty),
            Expr::Part(whole, n) => self.expr(whole)?.get(&[Select::Field(*n)]),
        })
    }

    /// "Evaluates e1, and then either evaluates e2 or e3".
    fn mux(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Run<Value> {
        let condition = self.expr(condition)?.truth();
        if self.is(Wrong::EagerMux) {
            let (yes, no) = (self.expr(yes)?, self.expr(no)?);
            return Ok(if condition { yes } else { no });
        }
        self.expr(if condition { yes } else { no })
    }

    /// "The second operand is only evaluated if necessary".
    fn logic(&mut self, and: bool, a: &Expr, b: &Expr) -> Run<Value> {
        let a = self.expr(a)?.truth();
        if a != and && !self.is(Wrong::EagerLogic) {
            return Ok(Value::Bool(a));
        }
        let b = self.expr(b)?.truth();
        Ok(Value::Bool(if and { a && b } else { a || b }))
    }

    /// Fields of a struct in the order of the text.
    fn fields(&mut self, fields: &[(usize, Expr)]) -> Run<Value> {
        let mut order: Vec<&(usize, Expr)> = fields.iter().collect();
        if self.is(Wrong::Declared) {
            order.sort_by_key(|(n, _)| *n);
        }
        let mut values = vec![0; fields.len()];
        for (n, value) in order {
            values[*n] = self.expr(value)?.bits();
        }
        Ok(Value::Struct(values))
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Run<Flow> {
        for stmt in stmts {
            if let Flow::Return(value) = self.stmt(stmt)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::Next)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Run<Flow> {
        match stmt {
            Stmt::Assign(place, value) => self.assign(place, value)?,
            Stmt::Compound(op, place, value) => self.compound(*op, place, value)?,
            Stmt::Var(local, _, value) => {
                let value = self.expr(value)?;
                self.set_local(*local, value);
            }
            Stmt::Call(call) => {
                self.call(call)?;
            }
            Stmt::SetValid(place, valid) => {
                let path = self.place(place)?;
                let field = self.get(&path).header().unwrap_or(0);
                self.set(&path, Value::Header(valid.then_some(field)));
            }
            Stmt::Shift(place, push, count) => self.shift(place, *push, usize::from(*count))?,
            Stmt::If(condition, yes, no) => {
                let branch = if self.expr(condition)?.truth() { yes } else { no };
                return self.stmts(branch);
            }
            Stmt::Switch(on, cases, rest) => {
                let on = self.expr(on)?.bits() & 3;
                let case = cases.iter().find(|(value, _)| *value == on);
                return self.stmts(case.map_or(rest, |(_, body)| body));
            }
            Stmt::ForIn(local, from, to, body) => {
                let from = self.expr(from)?.bits() & 3;
                let to = self.expr(to)?.bits() & 3;
                for n in from..=to {
                    self.set_local(*local, Value::Bits(n));
                    if let Flow::Return(value) = self.stmts(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::For(local, count, condition, body) => {
                for n in 0..=*count {
                    self.set_local(*local, Value::Bits(n));
                    if n == *count || !self.expr(condition)?.truth() {
                        break;
                    }
                    if let Flow::Return(value) = self.stmts(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::Apply(table, follow) => {
                let (_, action) = self.apply(*table)?;
                return match follow.get(action) {
                    Some(body) => self.stmts(body),
                    None => Ok(Flow::Next),
                };
            }
            Stmt::Return(value) => {
                let value = value.as_ref().map(|value| self.expr(value)).transpose()?;
                return Ok(Flow::Return(value));
            }
            Stmt::Exit => return Err(Exit),
        }
        Ok(Flow::Next)
    }

    fn set_local(&mut self, local: usize, value: Value) {
        self.frames.last_mut().expect("a frame").locals.insert(local, value);
    }

    /// "First evaluates its left sub-expression to an l-value, then evaluates its right
    /// sub-expression to a value, and finally copies the value into the l-value."
    fn assign(&mut self, place: &Place, value: &Expr) -> Run<()> {
        let (path, value) = if self.is(Wrong::RightFirst) {
            let value = self.expr(value)?;
            (self.place(place)?, value)
        } else {
            let path = self.place(place)?;
            let value = self.expr(value)?;
            (path, value)
        };
        let nibble = place.ty == super::tree::Ty::Nibble;
        let value = if nibble { Value::Bits(value.bits() & 15) } else { value };
        self.set(&path, value);
        Ok(())
    }

    /// "Equivalent to A = A + B, except that A is only evaluated once."
    fn compound(&mut self, op: Op, place: &Place, value: &Expr) -> Run<()> {
        let path = self.place(place)?;
        let read = if self.is(Wrong::CompoundTwice) { self.place(place)? } else { path.clone() };
        let old = self.get(&read).bits();
        let value = self.expr(value)?.bits();
        self.set(&path, Value::Bits(apply(op, old, value)));
        Ok(())
    }

    /// The pseudocode of the section "Operations on header stacks".
    fn shift(&mut self, place: &Place, push: bool, count: usize) -> Run<()> {
        let path = self.place(place)?;
        let Value::Stack(mut elements) = self.get(&path) else { panic!("a stack is shifted") };
        if push {
            for n in (0..STACK).rev() {
                elements[n] = if n >= count { elements[n - count] } else { None };
            }
        } else {
            for n in 0..STACK {
                elements[n] = elements.get(n + count).copied().flatten();
            }
        }
        self.set(&path, Value::Stack(elements));
        Ok(())
    }
}

fn apply(op: Op, a: u8, b: u8) -> u8 {
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
    }
}
