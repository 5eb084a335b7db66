//! Statements as text.

use super::Dump;
use crate::hir::{ForRange, Stmt, StmtKind, SwitchActionCase, SwitchValueCase, TableId};

impl Dump<'_> {
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    /// The statements of a block without its braces; any other statement as it is.
    fn inside(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.stmts(stmts),
            _ => self.stmt(stmt),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.braces("block", |d| d.stmts(stmts)),
            StmtKind::Instance(id) => self.instance(*id),
            StmtKind::If(condition, yes, no) => {
                self.braces(&format!("if ({})", self.expr(condition)), |d| d.inside(yes));
                if let Some(no) = no {
                    self.braces("else", |d| d.inside(no));
                }
            }
            StmtKind::SwitchAction { table, cases } => self.switch_action(*table, cases),
            StmtKind::SwitchValue { on, cases } => {
                let head = format!("switch ({})", self.expr(on));
                self.braces(&head, |d| cases.iter().for_each(|c| d.value_case(c)));
            }
            StmtKind::For { init, cond, update, body } => {
                let list = |stmts: &[Stmt]| stmts.iter().map(|s| self.simple(s)).collect::<Vec<_>>().join(", ");
                let head = format!("for ({}; {}; {})", list(init), self.expr(cond), list(update));
                self.braces(&head, |d| d.inside(body));
            }
            StmtKind::ForIn { var, over, body } => {
                let over = match over {
                    ForRange::Range(lo, hi) => format!("{} .. {}", self.expr(lo), self.expr(hi)),
                    ForRange::Elements(e) => self.expr(e),
                };
                let head = format!("for ({} in {over})", self.param(*var));
                self.braces(&head, |d| d.inside(body));
            }
            _ => {
                let text = self.simple(stmt);
                self.line(&format!("{text};"));
            }
        }
    }

    /// A statement that fits a line, without its semicolon.
    pub(super) fn simple(&self, stmt: &Stmt) -> String {
        match &stmt.kind {
            StmtKind::Var(id, init) => match init {
                Some(init) => format!("{} = {}", self.param(*id), self.expr(init)),
                None => self.param(*id),
            },
            StmtKind::Assign { left, op, right } => {
                let op = op.map_or("", |op| op.as_str());
                format!("{} {op}= {}", self.expr(left), self.expr(right))
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::Break => "break".to_owned(),
            StmtKind::Continue => "continue".to_owned(),
            StmtKind::Return(None) => "return".to_owned(),
            StmtKind::Return(Some(value)) => format!("return {}", self.expr(value)),
            StmtKind::Exit => "exit".to_owned(),
            _ => "...".to_owned(),
        }
    }

    fn switch_action(&mut self, table: TableId, cases: &[SwitchActionCase]) {
        let decl = &self.program.tables[table.index()];
        let head = format!("switch ({}.apply().action_run)", decl.name);
        self.braces(&head, |d| {
            for case in cases {
                let names = case.actions.iter().filter_map(|a| decl.actions.get(*a));
                let mut labels: Vec<String> =
                    names.map(|a| d.program.actions[a.action.index()].name.to_string()).collect();
                labels.extend(case.default.then(|| "default".to_owned()));
                d.case(&labels, case.body.as_ref());
            }
        });
    }

    fn value_case(&mut self, case: &SwitchValueCase) {
        let mut labels: Vec<String> = case.values.iter().map(|v| self.expr(v)).collect();
        labels.extend(case.default.then(|| "default".to_owned()));
        self.case(&labels, case.body.as_ref());
    }

    fn case(&mut self, labels: &[String], body: Option<&Stmt>) {
        self.braces(&format!("{}:", labels.join(", ")), |d| {
            if let Some(body) = body {
                d.inside(body);
            }
        });
    }
}
