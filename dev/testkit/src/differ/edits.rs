//! Cuts in a program's tree, numbered: the shrinker tries one after the other.
//!
//! A cut keeps types; what refers to something that was cut no longer compiles, and the shrinker takes the cut back.

use super::tree::*;

/// Walks the tree and makes the cut of a number.
struct Knife {
    left: usize,
    done: bool,
}

impl Knife {
    /// Whether it is this cut's turn.
    fn turn(&mut self) -> bool {
        if self.done {
            return false;
        }
        if self.left == 0 {
            self.done = true;
            return true;
        }
        self.left -= 1;
        false
    }

    /// Removes an element, or half of a long list.
    fn list<T>(&mut self, list: &mut Vec<T>) {
        let half = list.len() / 2;
        if half >= 2 {
            if self.turn() {
                list.truncate(half);
            } else if self.turn() {
                list.drain(..half);
            }
        }
        let mut at = list.len();
        while at > 0 && !self.done {
            at -= 1;
            if self.turn() {
                list.remove(at);
                return;
            }
        }
    }

    fn statements(&mut self, statements: &mut Vec<Stmt>) {
        self.list(statements);
        let mut at = 0;
        while at < statements.len() && !self.done {
            if let Some(inner) = self.unwrapped(&statements[at]) {
                statements.splice(at..=at, inner);
                return;
            }
            self.statement(&mut statements[at]);
            at += 1;
        }
    }

    /// What stands within a statement, in place of it.
    fn unwrapped(&mut self, statement: &Stmt) -> Option<Vec<Stmt>> {
        match statement {
            Stmt::Line(_) => None,
            Stmt::If { then, els, .. } => {
                if self.turn() {
                    return Some(then.clone());
                }
                (!els.is_empty() && self.turn()).then(|| els.clone())
            }
            Stmt::Switch { cases, default, .. } => {
                for (_, body) in cases {
                    if self.turn() {
                        return Some(body.clone());
                    }
                }
                default.as_ref().filter(|_| self.turn()).cloned()
            }
            Stmt::For { body, .. } => self.turn().then(|| body.clone()),
        }
    }

    fn statement(&mut self, statement: &mut Stmt) {
        match statement {
            Stmt::Line(parts) => self.parts(parts),
            Stmt::If { cond, then, els } => {
                self.statements(then);
                if !els.is_empty() && self.turn() {
                    els.clear();
                }
                self.statements(els);
                self.expr(cond);
            }
            Stmt::Switch { on, cases, default } => {
                self.list(cases);
                cases.iter_mut().for_each(|(_, body)| self.statements(body));
                if default.is_some() && self.turn() {
                    *default = None;
                }
                if let Some(body) = default {
                    self.statements(body);
                }
                self.parts(on);
            }
            Stmt::For { limit, body, .. } => {
                self.statements(body);
                self.expr(limit);
            }
        }
    }

    fn parts(&mut self, parts: &mut [Part]) {
        for part in parts {
            if let Part::Expr(expr) = part {
                self.expr(expr);
            }
        }
    }

    /// Replaces an expression by an operand, or by a constant.
    fn expr(&mut self, expr: &mut Expr) {
        if self.done || expr.is_lit() {
            return;
        }
        let ty = expr.ty;
        for operand in operands(expr) {
            if self.turn() {
                *expr = operand.to(ty);
                return;
            }
        }
        // A place is small already, and it says more than a constant.
        for value in [0, 1] {
            if self.turn() {
                *expr = Expr::lit(ty, value);
                return;
            }
        }
        match &mut expr.kind {
            ExprKind::Lit(_) | ExprKind::Place(_) => {}
            ExprKind::Unary(_, a) | ExprKind::Slice(a, ..) | ExprKind::Cast(a) => self.expr(a),
            ExprKind::Binary(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Choose(c, a, b) => {
                self.expr(c);
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Mixed(parts) => self.parts(parts),
        }
    }

    fn control(&mut self, control: &mut Control) {
        self.statements(&mut control.body);
        self.list(&mut control.tables);
        for table in &mut control.tables {
            self.table(table);
        }
        self.list(&mut control.actions);
        for action in &mut control.actions {
            self.statements(&mut action.body);
            self.list(&mut action.params);
        }
        self.list(&mut control.declarations);
    }

    fn table(&mut self, table: &mut Table) {
        self.list(&mut table.properties);
        self.list(&mut table.entries.1);
        self.list(&mut table.actions);
        self.list(&mut table.keys);
        for key in &mut table.keys {
            self.expr(&mut key.value);
        }
    }

    fn parser(&mut self, states: &mut Vec<State>) {
        for state in states.iter_mut() {
            if self.done {
                return;
            }
            let ends = state.next.keys.is_empty() && state.next.cases.iter().all(|(_, target)| target == "accept");
            if !ends && self.turn() {
                state.next = Transition { keys: Vec::new(), cases: Vec::new() };
            }
            self.list(&mut state.next.cases);
            let targets: Vec<String> = state.next.cases.iter().map(|(_, target)| target.clone()).collect();
            for target in targets {
                if !state.next.keys.is_empty() && self.turn() {
                    state.next = Transition { keys: Vec::new(), cases: vec![(Vec::new(), target)] };
                }
            }
            self.list(&mut state.ops);
            for op in &mut state.ops {
                match op {
                    Op::Other(statement) => self.statement(statement),
                    Op::Advance(bits) => self.expr(bits),
                    Op::Extract { size: Some(size), .. } => self.expr(size),
                    Op::Extract { .. } => {}
                }
            }
            for key in &mut state.next.keys {
                self.expr(key);
            }
        }
        self.list(states);
    }
}

/// Operands that can stand for the whole.
fn operands(expr: &Expr) -> Vec<Expr> {
    match &expr.kind {
        ExprKind::Unary(_, a) | ExprKind::Slice(a, ..) => vec![(**a).clone()],
        ExprKind::Cast(a) if a.ty != expr.ty && !matches!(a.kind, ExprKind::Place(_)) => operands(a),
        ExprKind::Binary(_, a, b) => vec![(**a).clone(), (**b).clone()],
        ExprKind::Choose(_, a, b) => vec![(**a).clone(), (**b).clone()],
        _ => Vec::new(),
    }
}

/// Makes the cut of a number; `None` when there are no more.
pub fn cut(program: &Program, number: usize) -> Option<Program> {
    let mut program = program.clone();
    let mut knife = Knife { left: number, done: false };
    knife.control(&mut program.egress);
    knife.control(&mut program.ingress);
    knife.statements(&mut program.verify);
    knife.statements(&mut program.compute);
    knife.statements(&mut program.deparser);
    knife.list(&mut program.deparser_declarations);
    knife.parser(&mut program.states);
    knife.list(&mut program.value_sets);
    knife.list(&mut program.metadata);
    knife.list(&mut program.types);
    for header in &mut program.headers {
        knife.list(&mut header.fields);
    }
    knife.list(&mut program.instances);
    knife.done.then_some(program)
}
