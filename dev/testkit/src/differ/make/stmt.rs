//! Generates random statements of controls and actions.

use super::super::tree::*;
use super::expr::binary;
use super::{BlockRole, ProgramGenerator, ScopeNames};
use ir::Arch;

impl ProgramGenerator<'_> {
    /// Generates up to `count` statements in their own scope.
    pub(super) fn random_block(&mut self, count: usize, depth: u32, scope: &ScopeNames) -> Vec<Stmt> {
        let mut scope = scope.clone();
        let mut out = Vec::new();
        for _ in 0..count {
            self.statement(depth, &mut scope, &mut out);
        }
        out
    }

    /// Generates a statement of a random form, or its parts, into `out`. `depth` bounds nested
    /// statements.
    fn statement(&mut self, depth: u32, scope: &mut ScopeNames, out: &mut Vec<Stmt>) {
        if self.true_with_percent(self.config.externs) {
            self.use_object(scope, out);
            return;
        }
        match self.rng.u8(..100) {
            0..34 => out.push(self.assign(scope)),
            34..40 => out.push(self.assign_slice(scope)),
            40..54 if depth > 0 => out.push(self.conditional(depth - 1, scope)),
            54..60 if depth > 0 => out.push(self.switch_statement(depth - 1, scope)),
            60..66 => out.push(self.validity()),
            66..71 => out.push(self.header_copy(scope)),
            71..74 => out.push(self.stack_operation(scope)),
            74..79 => self.declare_local(scope, out),
            79..82 if depth > 0 && !scope.in_loop && self.loops => out.push(self.for_statement(scope)),
            82..86 => self.call_action(scope, out),
            86..94 if !scope.in_action && !scope.in_loop => self.apply_table(depth, scope, out),
            94 if depth > 0 && !scope.in_loop => {
                let leave = if self.true_with_percent(50) { "exit" } else { "return" };
                let cond = self.rare_condition(scope);
                out.push(Stmt::If { cond, then: vec![Stmt::plain(leave)], els: Vec::new() });
            }
            95..98 => self.destination(scope, out),
            _ => out.push(self.assign(scope)),
        }
    }

    fn assign(&mut self, scope: &ScopeNames) -> Stmt {
        match self.random_element(&scope.writes).cloned() {
            Some((place, ty)) => {
                let depth = self.rng.u32(..=self.config.depth);
                Stmt::assign(&place, self.random_expr(ty, depth, scope))
            }
            None => Stmt::plain(""),
        }
    }

    fn assign_slice(&mut self, scope: &ScopeNames) -> Stmt {
        let wide: Vec<(String, Ty)> =
            scope.writes.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(w) if *w > 1)).cloned().collect();
        let Some((place, ty)) = self.random_element(&wide).cloned() else { return self.assign(scope) };
        let hi = self.rng.u32(..ty.width());
        let lo = self.rng.u32(..=hi);
        let value = self.random_expr(Ty::Bit(hi - lo + 1), 2, scope);
        Stmt::assign(&format!("{place}[{hi}:{lo}]"), value)
    }

    fn conditional(&mut self, depth: u32, scope: &ScopeNames) -> Stmt {
        let cond = self.random_expr(Ty::Bool, 2, scope);
        let (then, els) = (self.rng.usize(1..4), self.rng.usize(..3));
        Stmt::If { cond, then: self.random_block(then, depth, scope), els: self.random_block(els, depth, scope) }
    }

    /// Generates a condition that is true for few packets.
    pub(super) fn rare_condition(&mut self, scope: &ScopeNames) -> Expr {
        let field = self.random_read(Ty::Bit(8), scope);
        let masked = binary(Ty::Bit(8), "&", field, Expr::lit(Ty::Bit(8), 0x0f));
        let value = self.rng.u128(..16);
        binary(Ty::Bool, "==", masked, Expr::lit(Ty::Bit(8), value))
    }

    fn switch_statement(&mut self, depth: u32, scope: &ScopeNames) -> Stmt {
        let ty = Ty::Bit([8, 8, 3, 16, 64, 72][self.rng.usize(..6)]);
        let on = self.random_read(ty, scope);
        let mut labels: Vec<u128> =
            (0..self.rng.usize(1..5)).map(|_| self.random_constant() & ones(ty.width())).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut cases = Vec::new();
        for label in labels {
            let count = self.rng.usize(1..3);
            cases.push((super::super::print::literal(ty, label), self.random_block(count, depth, scope)));
        }
        let default = self.true_with_percent(60).then(|| self.random_block(1, depth, scope));
        Stmt::Switch { on: vec![TextPart::Expr(on)], cases, default }
    }

    fn validity(&mut self) -> Stmt {
        let places = self.header_places();
        let place = self.random_element(&places).map_or("hdr.h0".to_owned(), |(place, _)| place.clone());
        Stmt::plain(format!("{place}.{}()", if self.true_with_percent(70) { "setValid" } else { "setInvalid" }))
    }

    /// Generates a copy of a header from another of its type, or from a list of fields.
    fn header_copy(&mut self, scope: &ScopeNames) -> Stmt {
        let places = self.header_places();
        let Some((to, ty)) = self.random_element(&places).cloned() else { return self.assign(scope) };
        let same_type: Vec<&(String, usize)> =
            places.iter().filter(|(from, from_ty)| *from_ty == ty && *from != to).collect();
        match self.random_element(&same_type) {
            Some((from, _)) => Stmt::plain(format!("{to} = {from}")),
            None => {
                // A whole header, from a list of its fields, which makes it valid.
                let header = self.program.headers[ty].clone();
                if header.has_varbit() {
                    return self.assign(scope);
                }
                let mut parts = vec![text(format!("{to} = {{ "))];
                for (index, field) in header.fields.iter().enumerate() {
                    parts.push(text(if index == 0 { "" } else { ", " }));
                    parts.push(TextPart::Expr(self.random_expr(field.ty, 1, scope)));
                }
                parts.push(text(" }"));
                Stmt::Line(parts)
            }
        }
    }

    /// Generates an operation on a stack: push, pop, or access to an element. A read masks its
    /// index, because a read beyond the end has no defined value.
    fn stack_operation(&mut self, scope: &ScopeNames) -> Stmt {
        let stacks = self.program.instances.iter().filter_map(|i| match i.shape {
            Shape::Stack(header, size) => Some((i.name.clone(), header, size)),
            _ => None,
        });
        let stacks: Vec<_> = stacks.collect();
        let Some((name, header, size)) = self.random_element(&stacks).cloned() else { return self.assign(scope) };
        let field = self.program.headers[header].fields[0].clone();
        match self.rng.u8(..5) {
            0 => Stmt::plain(format!("hdr.{name}.push_front({})", self.rng.u32(1..=size))),
            1 => Stmt::plain(format!("hdr.{name}.pop_front({})", self.rng.u32(1..=size))),
            2 => {
                let index = self.random_read(Ty::Bit(8), scope);
                let value = self.random_expr(field.ty, 1, scope);
                let parts = vec![
                    text(format!("hdr.{name}[")),
                    TextPart::Expr(index),
                    text(format!("].{} = ", field.name)),
                    TextPart::Expr(value),
                ];
                Stmt::Line(parts)
            }
            3 => {
                let index = binary(Ty::Bit(8), "&", self.random_read(Ty::Bit(8), scope), Expr::lit(Ty::Bit(8), 3));
                let kind = ExprKind::Mixed(vec![
                    text(format!("hdr.{name}[")),
                    TextPart::Expr(index),
                    text(format!("].{}", field.name)),
                ]);
                match self.random_element(&scope.writes).cloned() {
                    Some((place, ty)) => Stmt::assign(&place, Expr { ty: field.ty, kind }.to(ty)),
                    None => Stmt::plain(""),
                }
            }
            _ => Stmt::plain(format!("hdr.{name}[{}].setValid()", self.rng.u32(..size))),
        }
    }

    fn declare_local(&mut self, scope: &mut ScopeNames, out: &mut Vec<Stmt>) {
        let ty = if self.true_with_percent(10) { Ty::Bit(self.rng.u32(129..300)) } else { self.random_type() };
        let name = self.fresh_name("l");
        let value = self.random_expr(ty, 2, scope);
        out.push(Stmt::assign(&format!("{ty} {name}"), value));
        scope.reads.push((name.clone(), ty));
        scope.writes.push((name, ty));
    }

    fn for_statement(&mut self, scope: &ScopeNames) -> Stmt {
        let name = self.fresh_name("i");
        let mut inner = scope.clone();
        inner.in_loop = true;
        inner.reads.push((name.clone(), Ty::Bit(8)));
        let mask = Expr::lit(Ty::Bit(8), 7);
        let limit = binary(Ty::Bit(8), "&", self.random_read(Ty::Bit(8), scope), mask);
        let count = self.rng.usize(1..3);
        let mut body = self.random_block(count, 1, &inner);
        if self.true_with_percent(30) {
            let cond = self.rare_condition(&inner);
            let leave = if self.true_with_percent(50) { "break" } else { "continue" };
            body.insert(0, Stmt::If { cond, then: vec![Stmt::plain(leave)], els: Vec::new() });
        }
        Stmt::For { name, limit, body }
    }

    /// Generates a call of an action.
    fn call_action(&mut self, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        if scope.in_action {
            return;
        }
        let Some(action) = self.random_element(&self.callable.clone()).cloned() else { return };
        match self.arguments(&action.params, scope) {
            Some(parts) => {
                let mut line = vec![text(format!("{}(", action.name))];
                line.extend(parts);
                line.push(text(")"));
                out.push(Stmt::Line(line));
            }
            None => out.push(self.assign(scope)),
        }
    }

    /// Generates arguments for parameters: variables for `out` and `inout`, expressions for the
    /// others.
    pub(super) fn arguments(&mut self, params: &[Param], scope: &ScopeNames) -> Option<Vec<TextPart>> {
        let mut parts = Vec::new();
        for (index, param) in params.iter().enumerate() {
            parts.push(text(if index == 0 { "" } else { ", " }));
            if param.direction.ends_with("out") {
                let fitting: Vec<&(String, Ty)> = scope.writes.iter().filter(|(_, ty)| *ty == param.ty).collect();
                let (place, _) = self.random_element(&fitting)?;
                parts.push(text(place.clone()));
            } else {
                parts.push(TextPart::Expr(self.random_expr(param.ty, 1, scope)));
            }
        }
        Some(parts)
    }

    /// Generates the application of a table that has not been applied yet, seldom a second one.
    fn apply_table(&mut self, depth: u32, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let Some((table, actions)) = (match self.unapplied.is_empty() {
            true => None,
            false => {
                let at = self.rng.usize(..self.unapplied.len());
                let again = self.true_with_percent(4);
                Some(if again { self.unapplied[at].clone() } else { self.unapplied.remove(at) })
            }
        }) else {
            return;
        };
        out.push(self.application(&table, &actions, depth, scope));
    }

    /// Generates a table application in one of its forms.
    pub(super) fn application(&mut self, table: &str, actions: &[String], depth: u32, scope: &ScopeNames) -> Stmt {
        let depth = depth.saturating_sub(1);
        if self.applied_twice.iter().any(|twice| twice == table) {
            return self.two_applications(table, depth, scope);
        }
        match self.rng.u8(..10) {
            0..2 => {
                let form = ["apply().hit", "apply().miss"][self.rng.usize(..2)];
                let negated = if self.true_with_percent(25) { "!" } else { "" };
                let cond = Expr::place(Ty::Bool, format!("{negated}{table}.{form}"));
                let (then, els) = (self.rng.usize(1..3), self.rng.usize(..2));
                Stmt::If {
                    cond,
                    then: self.random_block(then, depth, scope),
                    els: self.random_block(els, depth, scope),
                }
            }
            2..4 => {
                let mut cases = Vec::new();
                for action in actions {
                    if self.true_with_percent(60) {
                        let count = self.rng.usize(1..3);
                        cases.push((action.clone(), self.random_block(count, depth, scope)));
                    }
                }
                let default =
                    (cases.is_empty() || self.true_with_percent(50)).then(|| self.random_block(1, depth, scope));
                Stmt::Switch { on: vec![text(format!("{table}.apply().action_run"))], cases, default }
            }
            4 => match self.random_element(&scope.writes).cloned() {
                Some((place, ty)) => Stmt::assign(&place, Expr::place(Ty::Bool, format!("{table}.apply().hit")).to(ty)),
                None => Stmt::plain(format!("{table}.apply()")),
            },
            _ => Stmt::plain(format!("{table}.apply()")),
        }
    }

    /// Generates a new decision on the packet's destination.
    pub(super) fn destination(&mut self, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let drops = self.true_with_percent(25);
        let sets_reason = self.true_with_percent(50) && self.reasons;
        let mut lines = Vec::new();
        match (self.arch(), scope.role) {
            (Arch::V1Model, BlockRole::Ingress | BlockRole::Egress) if drops => {
                lines.push(Stmt::plain("mark_to_drop(sm)"))
            }
            (Arch::V1Model, BlockRole::Ingress) => lines.push(self.egress_spec(scope)),
            (Arch::Pna, BlockRole::Ingress) if drops => lines.push(Stmt::plain("drop_packet()")),
            (Arch::Pna, BlockRole::Ingress) => lines.push(self.send_to_port(scope)),
            _ => {}
        }
        if sets_reason {
            lines.push(Stmt::plain(match drops {
                true => format!("meta.drop_reason = drop_reason_t.{}", ["first", "second"][self.rng.usize(..2)]),
                false => format!("meta.cpu_reason = cpu_reason_t.{}", ["punt_a", "punt_b"][self.rng.usize(..2)]),
            }));
        }
        // A rare condition, so that most packets go on.
        if drops {
            let cond = self.rare_condition(scope);
            out.push(Stmt::If { cond, then: lines, els: Vec::new() });
        } else {
            out.extend(lines);
        }
    }

    /// v1model: sets the egress port to one of the first ports, seldom to ports next to the drop
    /// port.
    pub(super) fn egress_spec(&mut self, scope: &ScopeNames) -> Stmt {
        let port = self.random_read(Ty::Bit(9), scope);
        let mask = if self.true_with_percent(95) { 7 } else { 511 };
        Stmt::assign("sm.egress_spec", binary(Ty::Bit(9), "&", port, Expr::lit(Ty::Bit(9), mask)))
    }

    /// PNA: sends to one of the first ports, or to the CPU. Uses an action, because the extern
    /// requires action data or a constant.
    pub(super) fn send_to_port(&mut self, scope: &ScopeNames) -> Stmt {
        if self.true_with_percent(8) {
            return Stmt::plain("send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU)");
        }
        let port = self.random_read(Ty::Bit(32), scope);
        let port = binary(Ty::Bit(32), "&", port, Expr::lit(Ty::Bit(32), 7));
        Stmt::Line(vec![text("send_it("), TextPart::Expr(port), text(")")])
    }
}
