//! Literal evaluator of the P4-16 specification: evaluates programs as trees on plain values.
//! Statements and expressions are here, calls in [`super::calls`].
//!
//! It is independent of the compiler and its IR. Where the specification leaves values undefined,
//! ARCHITECTURE.md defines them ("Undefined is fixed").

use super::tree::{BYTES, CELLS, Expr, Op, PathStep, Place, Program, Root, STACK, Stmt};
use super::value::{Select, Value, sent_bytes, state};
use std::collections::HashMap;

/// A wrong reading of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongReading {
    /// Evaluates arguments from right to left.
    ArgumentsReversed,
    /// Evaluates arguments and fields in the order of their declaration, and copies out in that
    /// order.
    Declared,
    /// Copies arguments out from right to left.
    CopyOutReversed,
    /// Evaluates the l-value of an argument at copy-out instead of saving it before the call.
    LateIndex,
    /// Does not copy out after an `exit`.
    ExitCopiesNothing,
    /// Evaluates operands from right to left.
    OperandsReversed,
    /// Evaluates both sides of `&&` and `||`.
    EagerLogic,
    /// Evaluates both values of `?:`.
    EagerMux,
    /// Evaluates the right side of an assignment first.
    RightFirst,
    /// Evaluates `A += B` as `A = A + B`, with `A` evaluated twice.
    CompoundTwice,
    /// Evaluates the keys of a table from right to left.
    KeysReversed,
    /// Leaves the other members of a union unchanged when one becomes invalid.
    UnionAlone,
}

impl WrongReading {
    /// All wrong readings.
    pub const ALL: [WrongReading; 12] = [
        WrongReading::ArgumentsReversed,
        WrongReading::Declared,
        WrongReading::CopyOutReversed,
        WrongReading::LateIndex,
        WrongReading::ExitCopiesNothing,
        WrongReading::OperandsReversed,
        WrongReading::EagerLogic,
        WrongReading::EagerMux,
        WrongReading::RightFirst,
        WrongReading::CompoundTwice,
        WrongReading::KeysReversed,
        WrongReading::UnionAlone,
    ];
}

/// Signals that an `exit` was executed.
#[derive(Clone, Copy, Debug)]
pub struct Exit;

/// Result of an evaluation, or an exit.
pub type Run<T> = Result<T, Exit>;

/// Control flow after a statement.
pub enum Flow {
    /// Continues with the next statement.
    Next,
    /// Returns from the code.
    Return(Option<Value>),
}

/// Parameters and local variables of running code.
#[derive(Clone, Default, Debug)]
pub struct CallFrame {
    pub(super) params: Vec<Value>,
    pub(super) locals: HashMap<usize, Value>,
}

/// An evaluated l-value: its root, the frame of the root, and the selected part.
#[derive(Clone, Debug)]
pub struct EvaluatedPath {
    root: Root,
    frame: usize,
    selects: Vec<Select>,
}

/// A program with its state.
pub struct Evaluator<'p> {
    pub(super) program: &'p Program,
    state: Vec<Value>,
    pub(super) cells: Vec<u8>,
    pub(super) frames: Vec<CallFrame>,
    pub(super) wrong: Option<WrongReading>,
}

/// Evaluates a program. Returns the sent packets in order. `wrong` selects a wrong reading; `None`:
/// the correct one.
pub fn evaluate(program: &Program, packets: &[[u8; BYTES]], wrong: Option<WrongReading>) -> Vec<Vec<u8>> {
    let frames = vec![CallFrame::default()];
    let mut machine = Evaluator { program, state: Vec::new(), cells: vec![0; CELLS], frames, wrong };
    packets.iter().map(|bytes| machine.run_packet(bytes)).collect()
}

impl Evaluator<'_> {
    fn run_packet(&mut self, bytes: &[u8; BYTES]) -> Vec<u8> {
        self.state = state(bytes);
        let program = self.program;
        // A parser cannot exit.
        let _ = self.run_parser(program);
        self.frames = vec![CallFrame::default()];
        // "Terminates the execution of all the blocks currently executing": egress follows.
        let _ = self.run_stmts(&program.ingress);
        self.frames = vec![CallFrame::default()];
        sent_bytes(&self.state, &self.cells)
    }

    fn run_parser(&mut self, program: &Program) -> Run<()> {
        self.run_stmts(&program.parser)?;
        let first = self.expr(&program.select[0])?.bits() & 1;
        let second = self.expr(&program.select[1])?.bits() & 1;
        let (at, change) = if (first, second) == (1, 0) { (3, 0x55) } else { (2, 0xaa) };
        self.state[at] = Value::Bits(self.state[at].bits() ^ change);
        Ok(())
    }

    pub(super) fn has_wrong_reading(&self, wrong: WrongReading) -> bool {
        self.wrong == Some(wrong)
    }

    /// Evaluates an l-value: its indices from left to right.
    pub(super) fn place(&mut self, place: &Place) -> Run<EvaluatedPath> {
        self.steps(place.root, &place.steps)
    }

    fn steps(&mut self, root: Root, steps: &[PathStep]) -> Run<EvaluatedPath> {
        let mut selects = Vec::new();
        for step in steps {
            selects.push(match step {
                PathStep::Field(n) => Select::Field(*n),
                PathStep::Index(index) => Select::Element(usize::from(self.expr(index)?.bits()) % STACK),
                PathStep::Slice(lo) => Select::Nibble(*lo),
                PathStep::SliceAt(lo) => Select::Nibble(self.expr(lo)?.bits() & 3),
            });
        }
        Ok(EvaluatedPath { root, frame: self.frames.len() - 1, selects })
    }

    fn root(&mut self, path: &EvaluatedPath) -> &mut Value {
        let frame = &mut self.frames[path.frame];
        match path.root {
            Root::State(n) => &mut self.state[n],
            Root::Param(n) => &mut frame.params[n],
            Root::Local(n) => frame.locals.get_mut(&n).expect("a local is declared before it is used"),
        }
    }

    pub(super) fn get(&mut self, path: &EvaluatedPath) -> Value {
        self.root(path).get(&path.selects)
    }

    pub(super) fn set(&mut self, path: &EvaluatedPath, value: Value) {
        let union_alone = self.has_wrong_reading(WrongReading::UnionAlone);
        self.root(path).set(&path.selects, value, union_alone);
    }

    /// Reads the value of an l-value. A bit slice is an operator on a value, so the value is
    /// evaluated before the position of the slice.
    fn read(&mut self, place: &Place) -> Run<Value> {
        if let Some((PathStep::SliceAt(lo), steps)) = place.steps.split_last() {
            let path = self.steps(place.root, steps)?;
            let whole = self.get(&path).bits();
            return Ok(Value::Bits(whole >> (self.expr(lo)?.bits() & 3) & 15));
        }
        let path = self.place(place)?;
        Ok(self.get(&path))
    }

    /// Evaluates two expressions "left-to-right as they appear in the source program".
    fn eval_pair(&mut self, a: &Expr, b: &Expr) -> Run<(Value, Value)> {
        if self.has_wrong_reading(WrongReading::OperandsReversed) {
            let b = self.expr(b)?;
            return Ok((self.expr(a)?, b));
        }
        let a = self.expr(a)?;
        Ok((a, self.expr(b)?))
    }

    /// Evaluates an expression, operands from left to right. An `exit` in a call ends the
    /// evaluation.
    pub(super) fn expr(&mut self, expr: &Expr) -> Run<Value> {
        Ok(match expr {
            Expr::Const(bits) => Value::Bits(*bits),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Read(place) | Expr::Widen(place) => self.read(place)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = self.eval_pair(a, b)?;
                Value::Bits(apply(*op, a.bits(), b.bits()))
            }
            Expr::Concat(a, b) => {
                let (a, b) = self.eval_pair(a, b)?;
                Value::Bits(a.bits() << 4 | b.bits() >> 4)
            }
            Expr::SliceAt(a, b) => {
                let (a, b) = self.eval_pair(a, b)?;
                Value::Bits(a.bits() >> (b.bits() & 3) & 15)
            }
            Expr::Mux(condition, yes, no) => self.eval_mux(condition, yes, no)?,
            Expr::Equal(equal, a, b) => {
                let (a, b) = self.eval_pair(a, b)?;
                Value::Bool((a == b) == *equal)
            }
            Expr::Less(a, b) => {
                let (a, b) = self.eval_pair(a, b)?;
                Value::Bool(a.bits() < b.bits())
            }
            Expr::Logic(and, a, b) => self.eval_logic(*and, a, b)?,
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
            Expr::Part(whole, index) => self.expr(whole)?.get(&[Select::Field(*index)]),
        })
    }

    /// Evaluates `?:`: "evaluates e1, and then either evaluates e2 or e3".
    fn eval_mux(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Run<Value> {
        let condition = self.expr(condition)?.truth();
        if self.has_wrong_reading(WrongReading::EagerMux) {
            let (yes, no) = (self.expr(yes)?, self.expr(no)?);
            return Ok(if condition { yes } else { no });
        }
        self.expr(if condition { yes } else { no })
    }

    /// Evaluates `&&` and `||`: "the second operand is only evaluated if necessary".
    fn eval_logic(&mut self, and: bool, a: &Expr, b: &Expr) -> Run<Value> {
        let a = self.expr(a)?.truth();
        if a != and && !self.has_wrong_reading(WrongReading::EagerLogic) {
            return Ok(Value::Bool(a));
        }
        let b = self.expr(b)?.truth();
        Ok(Value::Bool(if and { a && b } else { a || b }))
    }

    /// Evaluates the fields of a struct in the order of the text.
    fn fields(&mut self, fields: &[(usize, Expr)]) -> Run<Value> {
        let mut order: Vec<&(usize, Expr)> = fields.iter().collect();
        if self.has_wrong_reading(WrongReading::Declared) {
            order.sort_by_key(|(n, _)| *n);
        }
        let mut values = vec![0; fields.len()];
        for (n, value) in order {
            values[*n] = self.expr(value)?.bits();
        }
        Ok(Value::Struct(values))
    }

    pub(super) fn run_stmts(&mut self, stmts: &[Stmt]) -> Run<Flow> {
        for stmt in stmts {
            if let Flow::Return(value) = self.stmt(stmt)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::Next)
    }

    /// Runs a statement, and returns how the block continues.
    fn stmt(&mut self, stmt: &Stmt) -> Run<Flow> {
        match stmt {
            Stmt::Assign(place, value) => self.run_assignment(place, value)?,
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
            Stmt::Shift(place, push, count) => self.run_stack_shift(place, *push, usize::from(*count))?,
            Stmt::If(condition, yes, no) => {
                let branch = if self.expr(condition)?.truth() { yes } else { no };
                return self.run_stmts(branch);
            }
            Stmt::Switch(selector, cases, default_body) => {
                let selector = self.expr(selector)?.bits() & 3;
                let case = cases.iter().find(|(value, _)| *value == selector);
                return self.run_stmts(case.map_or(default_body, |(_, body)| body));
            }
            Stmt::ForIn(local, from, to, body) => {
                let from = self.expr(from)?.bits() & 3;
                let to = self.expr(to)?.bits() & 3;
                for number in from..=to {
                    self.set_local(*local, Value::Bits(number));
                    if let Flow::Return(value) = self.run_stmts(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::For(local, count, condition, body) => {
                for number in 0..=*count {
                    self.set_local(*local, Value::Bits(number));
                    if number == *count || !self.expr(condition)?.truth() {
                        break;
                    }
                    if let Flow::Return(value) = self.run_stmts(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Stmt::Apply(table, arms) => {
                let (_, action) = self.apply(*table)?;
                return match arms.get(action) {
                    Some(body) => self.run_stmts(body),
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

    /// Executes an assignment: "first evaluates its left sub-expression to an l-value, then
    /// evaluates its right sub-expression to a value, and finally copies the value into the
    /// l-value."
    fn run_assignment(&mut self, place: &Place, value: &Expr) -> Run<()> {
        let (path, value) = if self.has_wrong_reading(WrongReading::RightFirst) {
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

    /// Executes a compound assignment, "equivalent to A = A + B, except that A is only evaluated
    /// once."
    fn compound(&mut self, op: Op, place: &Place, value: &Expr) -> Run<()> {
        let path = self.place(place)?;
        let read = if self.has_wrong_reading(WrongReading::CompoundTwice) { self.place(place)? } else { path.clone() };
        let old = self.get(&read).bits();
        let value = self.expr(value)?.bits();
        self.set(&path, Value::Bits(apply(op, old, value)));
        Ok(())
    }

    /// Executes `push_front` and `pop_front` by the pseudocode of the section "Operations on header
    /// stacks".
    fn run_stack_shift(&mut self, place: &Place, push: bool, count: usize) -> Run<()> {
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
