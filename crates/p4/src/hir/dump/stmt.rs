//! Dumps of statements.

use super::HirDump;
use crate::hir::{ForRange, Stmt, StmtKind, SwitchActionCase, SwitchValueCase, TableId};

impl HirDump<'_> {
    pub(super) fn write_stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.write_stmt(stmt);
        }
    }

    /// Writes the statements of a block without its braces, or any other statement.
    fn write_block_content(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.write_stmts(stmts),
            _ => self.write_stmt(stmt),
        }
    }

    /// Writes a statement with its nested statements; one without is a single line.
    fn write_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.write_braced("block", |d| d.write_stmts(stmts)),
            StmtKind::Instance(id) => self.write_instance(*id),
            StmtKind::If(condition, then_stmt, else_stmt) => {
                self.write_braced(&format!("if ({})", self.expr_text(condition)), |d| d.write_block_content(then_stmt));
                if let Some(else_stmt) = else_stmt {
                    self.write_braced("else", |d| d.write_block_content(else_stmt));
                }
            }
            StmtKind::SwitchAction { table, cases } => self.write_switch_action(*table, cases),
            StmtKind::SwitchValue { on, cases } => {
                let signature = format!("switch ({})", self.expr_text(on));
                self.write_braced(&signature, |d| cases.iter().for_each(|c| d.write_value_case(c)));
            }
            StmtKind::For { init, cond, update, body } => {
                let stmt_list =
                    |stmts: &[Stmt]| stmts.iter().map(|s| self.simple_stmt_text(s)).collect::<Vec<_>>().join(", ");
                let signature = format!("for ({}; {}; {})", stmt_list(init), self.expr_text(cond), stmt_list(update));
                self.write_braced(&signature, |d| d.write_block_content(body));
            }
            StmtKind::ForIn { var, over, body } => {
                let range_text = match over {
                    ForRange::Range(lo, hi) => format!("{} .. {}", self.expr_text(lo), self.expr_text(hi)),
                    ForRange::Elements(e) => self.expr_text(e),
                };
                let signature = format!("for ({} in {range_text})", self.param_text(*var));
                self.write_braced(&signature, |d| d.write_block_content(body));
            }
            _ => {
                let text = self.simple_stmt_text(stmt);
                self.write_line(&format!("{text};"));
            }
        }
    }

    /// Returns a statement that fits on one line, without its semicolon.
    pub(super) fn simple_stmt_text(&self, stmt: &Stmt) -> String {
        match &stmt.kind {
            StmtKind::Var(id, init) => match init {
                Some(init) => format!("{} = {}", self.param_text(*id), self.expr_text(init)),
                None => self.param_text(*id),
            },
            StmtKind::Assign { left, op, right } => {
                let op = op.map_or("", |op| op.as_str());
                format!("{} {op}= {}", self.expr_text(left), self.expr_text(right))
            }
            StmtKind::Call(call) => self.call_text(call),
            StmtKind::Break => "break".to_owned(),
            StmtKind::Continue => "continue".to_owned(),
            StmtKind::Return(None) => "return".to_owned(),
            StmtKind::Return(Some(value)) => format!("return {}", self.expr_text(value)),
            StmtKind::Exit => "exit".to_owned(),
            _ => "...".to_owned(),
        }
    }

    fn write_switch_action(&mut self, table: TableId, cases: &[SwitchActionCase]) {
        let decl = &self.program.tables[table.index()];
        let head = format!("switch ({}.apply().action_run)", decl.name);
        self.write_braced(&head, |d| {
            for case in cases {
                let names = case.actions.iter().filter_map(|a| decl.actions.get(*a));
                let mut labels: Vec<String> =
                    names.map(|a| d.program.actions[a.action.index()].name.to_string()).collect();
                labels.extend(case.default.then(|| "default".to_owned()));
                d.write_case(&labels, case.body.as_ref());
            }
        });
    }

    fn write_value_case(&mut self, case: &SwitchValueCase) {
        let mut labels: Vec<String> = case.values.iter().map(|v| self.expr_text(v)).collect();
        labels.extend(case.default.then(|| "default".to_owned()));
        self.write_case(&labels, case.body.as_ref());
    }

    fn write_case(&mut self, labels: &[String], body: Option<&Stmt>) {
        self.write_braced(&format!("{}:", labels.join(", ")), |d| {
            if let Some(body) = body {
                d.write_block_content(body);
            }
        });
    }
}
