//! Shrinks a program that shows a difference: removes statements and simplifies expressions while
//! the difference remains.

use super::tree::{Arg, Call, Expr, PathStep, Place, Program, Stmt, Ty};
use std::time::{Duration, Instant};

/// Shrinks a program for at most `max_time`. `fails` returns whether a program still shows the
/// difference. Tries one reduction after the other, and again from the first until none helps.
pub fn shrink(mut program: Program, fails: impl Fn(&Program) -> bool, max_time: Duration) -> Program {
    let end = Instant::now() + max_time;
    loop {
        let before = program.clone();
        let mut number = 0;
        while Instant::now() < end {
            let mut smaller = program.clone();
            let mut reducer = OrderReducer { left: number, done: false };
            reducer.program(&mut smaller);
            if !reducer.done {
                break;
            }
            if smaller != program && fails(&smaller) {
                program = smaller;
            } else {
                number += 1;
            }
        }
        if program == before || Instant::now() >= end {
            return program;
        }
    }
}

/// Walks the tree and applies the reduction of a given number.
struct OrderReducer {
    left: usize,
    done: bool,
}

impl OrderReducer {
    fn is_selected(&mut self) -> bool {
        if self.done {
            return false;
        }
        self.done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.done
    }

    fn program(&mut self, program: &mut Program) {
        self.stmts(&mut program.ingress);
        self.stmts(&mut program.parser);
        program.select.iter_mut().for_each(|e| self.expr(e));
        for code in &mut program.codes {
            self.stmts(&mut code.body);
        }
        for table in &mut program.tables {
            table.keys.iter_mut().for_each(|key| self.expr(key));
            table.actions.iter_mut().for_each(|action| self.call(action));
        }
    }

    /// Applies the selected reduction, if it is one of these statements: the removal of a
    /// statement, or one within it.
    fn stmts(&mut self, stmts: &mut Vec<Stmt>) {
        let mut index = 0;
        while index < stmts.len() {
            if self.is_selected() {
                match stmts.remove(index) {
                    // A removed condition is replaced by its branches, which can be removed in
                    // turn.
                    Stmt::If(_, yes, no) if yes.len() + no.len() > 0 => {
                        stmts.splice(index..index, yes.into_iter().chain(no));
                    }
                    // Code with a result must end with a return.
                    last @ Stmt::Return(Some(_)) if index == stmts.len() => stmts.push(last),
                    _ => {}
                }
                return;
            }
            self.stmt(&mut stmts[index]);
            index += 1;
        }
    }

    /// Applies the selected reduction within a statement.
    fn stmt(&mut self, stmt: &mut Stmt) {
        match stmt {
            Stmt::Assign(place, e) | Stmt::Compound(_, place, e) => {
                self.place(place);
                self.expr(e);
            }
            Stmt::Var(_, _, e) | Stmt::Return(Some(e)) => self.expr(e),
            Stmt::Call(call) => self.call(call),
            Stmt::SetValid(place, _) | Stmt::Shift(place, ..) => self.place(place),
            Stmt::If(condition, yes, no) => {
                self.expr(condition);
                self.stmts(yes);
                self.stmts(no);
            }
            Stmt::Switch(selector, cases, default_body) => {
                self.expr(selector);
                cases.iter_mut().for_each(|(_, body)| self.stmts(body));
                self.stmts(default_body);
            }
            Stmt::ForIn(_, from, to, body) => {
                self.expr(from);
                self.expr(to);
                self.stmts(body);
            }
            Stmt::For(_, _, condition, body) => {
                self.expr(condition);
                self.stmts(body);
            }
            Stmt::Apply(_, arms) => arms.iter_mut().for_each(|body| self.stmts(body)),
            Stmt::Return(None) | Stmt::Exit => {}
        }
    }

    fn place(&mut self, place: &mut Place) {
        for step in &mut place.steps {
            if let PathStep::Index(e) | PathStep::SliceAt(e) = step {
                self.expr(e);
            }
        }
    }

    fn call(&mut self, call: &mut Call) {
        for (_, arg) in &mut call.args {
            match arg {
                Arg::In(e) => self.expr(e),
                Arg::Place(place) => self.place(place),
                Arg::Nothing => {}
            }
        }
    }

    /// Applies the selected reduction, if it is one of this expression: a simpler one in its place,
    /// or a reduction of a part.
    fn expr(&mut self, expr: &mut Expr) {
        if matches!(expr, Expr::Const(_) | Expr::Bool(_) | Expr::Invalid(_)) {
            return;
        }
        if self.is_selected() {
            if let Some(simple) = simpler_expr(expr) {
                *expr = simple;
            }
            return;
        }
        match expr {
            Expr::Read(place) | Expr::Widen(place) | Expr::IsValid(place) => self.place(place),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) | Expr::SliceAt(a, b) | Expr::Less(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Equal(_, a, b) | Expr::Logic(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Mux(a, b, c) => [a, b, c].into_iter().for_each(|e| self.expr(e)),
            Expr::Not(a) | Expr::Header(a) | Expr::Part(a, _) => self.expr(a),
            Expr::Call(call) => self.call(call),
            Expr::Struct(fields) => fields.iter_mut().for_each(|(_, e)| self.expr(e)),
            Expr::Const(_) | Expr::Bool(_) | Expr::Invalid(_) | Expr::Hit(..) => {}
        }
    }
}

/// Returns a simpler expression of the same type; `None` if there is none, or if the type is
/// unknown here.
fn simpler_expr(expr: &Expr) -> Option<Expr> {
    Some(match expr {
        Expr::Read(place) if matches!(place.ty, Ty::Bits | Ty::Nibble) => Expr::Const(1),
        Expr::Read(Place { ty: ty @ (Ty::Header | Ty::Union), .. }) => Expr::Invalid(*ty),
        Expr::Binary(_, a, _) | Expr::Concat(a, _) | Expr::SliceAt(a, _) => (**a).clone(),
        Expr::Mux(_, a, _) | Expr::Logic(_, a, _) | Expr::Not(a) => (**a).clone(),
        Expr::Widen(_) | Expr::Part(..) => Expr::Const(1),
        Expr::Equal(..) | Expr::Less(..) | Expr::IsValid(_) | Expr::Hit(..) => Expr::Bool(true),
        Expr::Header(_) => Expr::Invalid(Ty::Header),
        _ => return None,
    })
}
