//! Numbered reductions of a program's tree, which the shrinker tries one after the other.
//!
//! A reduction keeps types. If the reduced program does not compile because of a dangling
//! reference, the shrinker discards the reduction.

use super::tree::*;

/// Walks the tree and applies the reduction of a given number.
struct Reducer {
    left: usize,
    done: bool,
}

impl Reducer {
    /// Returns whether the reduction at this point is the one to apply.
    fn is_selected(&mut self) -> bool {
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
    fn reduce_list<T>(&mut self, list: &mut Vec<T>) {
        let half = list.len() / 2;
        if half >= 2 {
            if self.is_selected() {
                list.truncate(half);
            } else if self.is_selected() {
                list.drain(..half);
            }
        }
        let mut at = list.len();
        while at > 0 && !self.done {
            at -= 1;
            if self.is_selected() {
                list.remove(at);
                return;
            }
        }
    }

    fn reduce_statements(&mut self, statements: &mut Vec<Stmt>) {
        self.reduce_list(statements);
        let mut at = 0;
        while at < statements.len() && !self.done {
            if let Some(inner) = self.unwrapped(&statements[at]) {
                statements.splice(at..=at, inner);
                return;
            }
            self.reduce_statement(&mut statements[at]);
            at += 1;
        }
    }

    /// Returns the statements within a statement, to replace it.
    fn unwrapped(&mut self, statement: &Stmt) -> Option<Vec<Stmt>> {
        match statement {
            Stmt::Line(_) => None,
            Stmt::If { then, els, .. } => {
                if self.is_selected() {
                    return Some(then.clone());
                }
                (!els.is_empty() && self.is_selected()).then(|| els.clone())
            }
            Stmt::Switch { cases, default, .. } => {
                for (_, body) in cases {
                    if self.is_selected() {
                        return Some(body.clone());
                    }
                }
                default.as_ref().filter(|_| self.is_selected()).cloned()
            }
            Stmt::For { body, .. } => self.is_selected().then(|| body.clone()),
        }
    }

    /// Applies the selected reduction, if it is one of this statement or its parts.
    fn reduce_statement(&mut self, statement: &mut Stmt) {
        match statement {
            Stmt::Line(parts) => self.reduce_parts(parts),
            Stmt::If { cond, then, els } => {
                self.reduce_statements(then);
                if !els.is_empty() && self.is_selected() {
                    els.clear();
                }
                self.reduce_statements(els);
                self.reduce_expr(cond);
            }
            Stmt::Switch { on, cases, default } => {
                self.reduce_list(cases);
                cases.iter_mut().for_each(|(_, body)| self.reduce_statements(body));
                if default.is_some() && self.is_selected() {
                    *default = None;
                }
                if let Some(body) = default {
                    self.reduce_statements(body);
                }
                self.reduce_parts(on);
            }
            Stmt::For { limit, body, .. } => {
                self.reduce_statements(body);
                self.reduce_expr(limit);
            }
        }
    }

    fn reduce_parts(&mut self, parts: &mut [TextPart]) {
        for part in parts {
            if let TextPart::Expr(expr) = part {
                self.reduce_expr(expr);
            }
        }
    }

    /// Applies the selected reduction, if it is one of this expression or its parts: an operand
    /// instead of the expression, or the constant 0 or 1.
    fn reduce_expr(&mut self, expr: &mut Expr) {
        if self.done || expr.is_lit() {
            return;
        }
        let ty = expr.ty;
        for operand in operands(expr) {
            if self.is_selected() {
                *expr = operand.to(ty);
                return;
            }
        }
        for value in [0, 1] {
            if self.is_selected() {
                *expr = Expr::lit(ty, value);
                return;
            }
        }
        match &mut expr.kind {
            ExprKind::Lit(_) | ExprKind::Place(_) => {}
            ExprKind::Unary(_, a) | ExprKind::Slice(a, ..) | ExprKind::Cast(a) => self.reduce_expr(a),
            ExprKind::Binary(_, a, b) => {
                self.reduce_expr(a);
                self.reduce_expr(b);
            }
            ExprKind::Choose(c, a, b) => {
                self.reduce_expr(c);
                self.reduce_expr(a);
                self.reduce_expr(b);
            }
            ExprKind::Mixed(parts) => self.reduce_parts(parts),
        }
    }

    fn reduce_control(&mut self, control: &mut Control) {
        self.reduce_statements(&mut control.body);
        self.reduce_list(&mut control.tables);
        for table in &mut control.tables {
            self.reduce_table(table);
        }
        self.reduce_list(&mut control.actions);
        for action in &mut control.actions {
            self.reduce_statements(&mut action.body);
            self.reduce_list(&mut action.params);
        }
        self.reduce_list(&mut control.declarations);
    }

    fn reduce_table(&mut self, table: &mut Table) {
        self.reduce_list(&mut table.properties);
        self.reduce_list(&mut table.entries.1);
        self.reduce_list(&mut table.actions);
        self.reduce_list(&mut table.keys);
        for key in &mut table.keys {
            self.reduce_expr(&mut key.value);
        }
    }

    /// Applies the selected reduction, if it is one of these states: an end of the program in place
    /// of a transition, a fixed target in place of a select, or fewer states, cases and operations.
    fn reduce_parser(&mut self, states: &mut Vec<State>) {
        for state in states.iter_mut() {
            if self.done {
                return;
            }
            let is_final = state.next.keys.is_empty() && state.next.cases.iter().all(|(_, target)| target == "accept");
            if !is_final && self.is_selected() {
                state.next = Transition { keys: Vec::new(), cases: Vec::new() };
            }
            self.reduce_list(&mut state.next.cases);
            let targets: Vec<String> = state.next.cases.iter().map(|(_, target)| target.clone()).collect();
            for target in targets {
                if !state.next.keys.is_empty() && self.is_selected() {
                    state.next = Transition { keys: Vec::new(), cases: vec![(Vec::new(), target)] };
                }
            }
            self.reduce_list(&mut state.ops);
            for op in &mut state.ops {
                match op {
                    Op::Other(statement) => self.reduce_statement(statement),
                    Op::Advance(bits) => self.reduce_expr(bits),
                    Op::Extract { size: Some(size), .. } => self.reduce_expr(size),
                    Op::Extract { .. } => {}
                }
            }
            for key in &mut state.next.keys {
                self.reduce_expr(key);
            }
        }
        self.reduce_list(states);
    }
}

/// Returns the operands that can replace the expression.
fn operands(expr: &Expr) -> Vec<Expr> {
    match &expr.kind {
        ExprKind::Unary(_, a) | ExprKind::Slice(a, ..) => vec![(**a).clone()],
        ExprKind::Cast(a) if a.ty != expr.ty && !matches!(a.kind, ExprKind::Place(_)) => operands(a),
        ExprKind::Binary(_, a, b) => vec![(**a).clone(), (**b).clone()],
        ExprKind::Choose(_, a, b) => vec![(**a).clone(), (**b).clone()],
        _ => Vec::new(),
    }
}

/// Applies the reduction of this number; `None` when there are no more.
pub fn reduced_program(program: &Program, number: usize) -> Option<Program> {
    let mut program = program.clone();
    let mut knife = Reducer { left: number, done: false };
    knife.reduce_control(&mut program.egress);
    knife.reduce_control(&mut program.ingress);
    knife.reduce_statements(&mut program.verify);
    knife.reduce_statements(&mut program.compute);
    knife.reduce_statements(&mut program.deparser);
    knife.reduce_list(&mut program.deparser_declarations);
    knife.reduce_parser(&mut program.states);
    knife.reduce_list(&mut program.value_sets);
    knife.reduce_list(&mut program.metadata);
    knife.reduce_list(&mut program.types);
    for header in &mut program.headers {
        knife.reduce_list(&mut header.fields);
    }
    knife.reduce_list(&mut program.instances);
    knife.done.then_some(program)
}
