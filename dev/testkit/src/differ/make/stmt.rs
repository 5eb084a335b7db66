//! Random statements of controls and actions.

use super::super::tree::*;
use super::expr::binary;
use super::{Maker, Role, Scope};
use ir::Arch;

impl Maker<'_> {
    /// Up to that many statements, in a scope of their own.
    pub(super) fn block(&mut self, count: usize, depth: u32, scope: &Scope) -> Vec<Stmt> {
        let mut scope = scope.clone();
        let mut out = Vec::new();
        for _ in 0..count {
            self.statement(depth, &mut scope, &mut out);
        }
        out
    }

    fn statement(&mut self, depth: u32, scope: &mut Scope, out: &mut Vec<Stmt>) {
        if self.chance(self.config.externs) {
            self.use_object(scope, out);
            return;
        }
        match self.rng.u8(..100) {
            0..34 => out.push(self.assign(scope)),
            34..40 => out.push(self.assign_slice(scope)),
            40..54 if depth > 0 => out.push(self.conditional(depth - 1, scope)),
            54..60 if depth > 0 => out.push(self.switch(depth - 1, scope)),
            60..66 => out.push(self.validity()),
            66..71 => out.push(self.header_copy(scope)),
            71..74 => out.push(self.stack_operation(scope)),
            74..79 => self.local(scope, out),
            79..82 if depth > 0 && !scope.in_loop && self.loops => out.push(self.repeat(scope)),
            82..86 => self.call(scope, out),
            86..94 if !scope.in_action && !scope.in_loop => self.apply(depth, scope, out),
            94 if depth > 0 && !scope.in_loop => {
                let leave = if self.chance(50) { "exit" } else { "return" };
                let cond = self.rare(scope);
                out.push(Stmt::If { cond, then: vec![Stmt::plain(leave)], els: Vec::new() });
            }
            95..98 => self.destination(scope, out),
            _ => out.push(self.assign(scope)),
        }
    }

    fn assign(&mut self, scope: &Scope) -> Stmt {
        match self.one(&scope.writes).cloned() {
            Some((place, ty)) => {
                let depth = self.rng.u32(..=self.config.depth);
                Stmt::assign(&place, self.expr(ty, depth, scope))
            }
            None => Stmt::plain(""),
        }
    }

    fn assign_slice(&mut self, scope: &Scope) -> Stmt {
        let wide: Vec<(String, Ty)> =
            scope.writes.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(w) if *w > 1)).cloned().collect();
        let Some((place, ty)) = self.one(&wide).cloned() else { return self.assign(scope) };
        let hi = self.rng.u32(..ty.width());
        let lo = self.rng.u32(..=hi);
        let value = self.expr(Ty::Bit(hi - lo + 1), 2, scope);
        Stmt::assign(&format!("{place}[{hi}:{lo}]"), value)
    }

    fn conditional(&mut self, depth: u32, scope: &Scope) -> Stmt {
        let cond = self.expr(Ty::Bool, 2, scope);
        let (then, els) = (self.rng.usize(1..4), self.rng.usize(..3));
        Stmt::If { cond, then: self.block(then, depth, scope), els: self.block(els, depth, scope) }
    }

    /// True for few packets.
    pub(super) fn rare(&mut self, scope: &Scope) -> Expr {
        let field = self.reading(Ty::Bit(8), scope);
        let masked = binary(Ty::Bit(8), "&", field, Expr::lit(Ty::Bit(8), 0x0f));
        let value = self.rng.u128(..16);
        binary(Ty::Bool, "==", masked, Expr::lit(Ty::Bit(8), value))
    }

    fn switch(&mut self, depth: u32, scope: &Scope) -> Stmt {
        let ty = Ty::Bit([8, 8, 3, 16, 64, 72][self.rng.usize(..6)]);
        let on = self.reading(ty, scope);
        let mut labels: Vec<u128> = (0..self.rng.usize(1..5)).map(|_| self.constant() & ones(ty.width())).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut cases = Vec::new();
        for label in labels {
            let count = self.rng.usize(1..3);
            cases.push((super::super::print::literal(ty, label), self.block(count, depth, scope)));
        }
        let default = self.chance(60).then(|| self.block(1, depth, scope));
        Stmt::Switch { on: vec![Part::Expr(on)], cases, default }
    }

    fn validity(&mut self) -> Stmt {
        let places = self.places();
        let place = self.one(&places).map_or("hdr.h0".to_owned(), |(place, _)| place.clone());
        Stmt::plain(format!("{place}.{}()", if self.chance(70) { "setValid" } else { "setInvalid" }))
    }

    fn header_copy(&mut self, scope: &Scope) -> Stmt {
        let places = self.places();
        let Some((to, ty)) = self.one(&places).cloned() else { return self.assign(scope) };
        let same: Vec<&(String, usize)> = places.iter().filter(|(from, t)| *t == ty && *from != to).collect();
        match self.one(&same) {
            Some((from, _)) => Stmt::plain(format!("{to} = {from}")),
            None => {
                // A header as a whole: from a list of its fields, which makes it valid.
                let header = self.program.headers[ty].clone();
                if header.has_varbit() {
                    return self.assign(scope);
                }
                let mut parts = vec![text(format!("{to} = {{ "))];
                for (index, field) in header.fields.iter().enumerate() {
                    parts.push(text(if index == 0 { "" } else { ", " }));
                    parts.push(Part::Expr(self.expr(field.ty, 1, scope)));
                }
                parts.push(text(" }"));
                Stmt::Line(parts)
            }
        }
    }

    fn stack_operation(&mut self, scope: &Scope) -> Stmt {
        let stacks = self.program.instances.iter().filter_map(|i| match i.shape {
            Shape::Stack(header, size) => Some((i.name.clone(), header, size)),
            _ => None,
        });
        let stacks: Vec<_> = stacks.collect();
        let Some((name, header, size)) = self.one(&stacks).cloned() else { return self.assign(scope) };
        let field = self.program.headers[header].fields[0].clone();
        match self.rng.u8(..5) {
            0 => Stmt::plain(format!("hdr.{name}.push_front({})", self.rng.u32(1..=size))),
            1 => Stmt::plain(format!("hdr.{name}.pop_front({})", self.rng.u32(1..=size))),
            2 => {
                let at = self.reading(Ty::Bit(8), scope);
                let value = self.expr(field.ty, 1, scope);
                let parts = vec![
                    text(format!("hdr.{name}[")),
                    Part::Expr(at),
                    text(format!("].{} = ", field.name)),
                    Part::Expr(value),
                ];
                Stmt::Line(parts)
            }
            3 => {
                let at = binary(Ty::Bit(8), "&", self.reading(Ty::Bit(8), scope), Expr::lit(Ty::Bit(8), 3));
                let kind = ExprKind::Mixed(vec![
                    text(format!("hdr.{name}[")),
                    Part::Expr(at),
                    text(format!("].{}", field.name)),
                ]);
                match self.one(&scope.writes).cloned() {
                    Some((place, ty)) => Stmt::assign(&place, Expr { ty: field.ty, kind }.to(ty)),
                    None => Stmt::plain(""),
                }
            }
            _ => Stmt::plain(format!("hdr.{name}[{}].setValid()", self.rng.u32(..size))),
        }
    }

    fn local(&mut self, scope: &mut Scope, out: &mut Vec<Stmt>) {
        let ty = if self.chance(10) { Ty::Bit(self.rng.u32(129..300)) } else { self.ty() };
        let name = self.name("l");
        let value = self.expr(ty, 2, scope);
        out.push(Stmt::assign(&format!("{ty} {name}"), value));
        scope.reads.push((name.clone(), ty));
        scope.writes.push((name, ty));
    }

    fn repeat(&mut self, scope: &Scope) -> Stmt {
        let name = self.name("i");
        let mut inner = scope.clone();
        inner.in_loop = true;
        inner.reads.push((name.clone(), Ty::Bit(8)));
        let mask = Expr::lit(Ty::Bit(8), 7);
        let limit = binary(Ty::Bit(8), "&", self.reading(Ty::Bit(8), scope), mask);
        let count = self.rng.usize(1..3);
        let mut body = self.block(count, 1, &inner);
        if self.chance(30) {
            let cond = self.rare(&inner);
            let leave = if self.chance(50) { "break" } else { "continue" };
            body.insert(0, Stmt::If { cond, then: vec![Stmt::plain(leave)], els: Vec::new() });
        }
        Stmt::For { name, limit, body }
    }

    /// Calls an action.
    fn call(&mut self, scope: &Scope, out: &mut Vec<Stmt>) {
        if scope.in_action {
            return;
        }
        let Some(action) = self.one(&self.callable.clone()).cloned() else { return };
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

    /// Arguments for parameters: places for `out` and `inout`, expressions for the others.
    pub(super) fn arguments(&mut self, params: &[Param], scope: &Scope) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for (index, param) in params.iter().enumerate() {
            parts.push(text(if index == 0 { "" } else { ", " }));
            if param.direction.ends_with("out") {
                let fitting: Vec<&(String, Ty)> = scope.writes.iter().filter(|(_, ty)| *ty == param.ty).collect();
                let (place, _) = self.one(&fitting)?;
                parts.push(text(place.clone()));
            } else {
                parts.push(Part::Expr(self.expr(param.ty, 1, scope)));
            }
        }
        Some(parts)
    }

    /// Applies a table that has not been applied yet; seldom one a second time.
    fn apply(&mut self, depth: u32, scope: &Scope, out: &mut Vec<Stmt>) {
        let Some((table, actions)) = (match self.unapplied.is_empty() {
            true => None,
            false => {
                let at = self.rng.usize(..self.unapplied.len());
                let again = self.chance(4);
                Some(if again { self.unapplied[at].clone() } else { self.unapplied.remove(at) })
            }
        }) else {
            return;
        };
        out.push(self.application(&table, &actions, depth, scope));
    }

    /// A table application in one of its forms.
    pub(super) fn application(&mut self, table: &str, actions: &[String], depth: u32, scope: &Scope) -> Stmt {
        let depth = depth.saturating_sub(1);
        match self.rng.u8(..10) {
            0..2 => {
                let form = ["apply().hit", "apply().miss"][self.rng.usize(..2)];
                let negated = if self.chance(25) { "!" } else { "" };
                let cond = Expr::place(Ty::Bool, format!("{negated}{table}.{form}"));
                let (then, els) = (self.rng.usize(1..3), self.rng.usize(..2));
                Stmt::If { cond, then: self.block(then, depth, scope), els: self.block(els, depth, scope) }
            }
            2..4 => {
                let mut cases = Vec::new();
                for action in actions {
                    if self.chance(60) {
                        let count = self.rng.usize(1..3);
                        cases.push((action.clone(), self.block(count, depth, scope)));
                    }
                }
                let default = (cases.is_empty() || self.chance(50)).then(|| self.block(1, depth, scope));
                Stmt::Switch { on: vec![text(format!("{table}.apply().action_run"))], cases, default }
            }
            4 => match self.one(&scope.writes).cloned() {
                Some((place, ty)) => Stmt::assign(&place, Expr::place(Ty::Bool, format!("{table}.apply().hit")).to(ty)),
                None => Stmt::plain(format!("{table}.apply()")),
            },
            _ => Stmt::plain(format!("{table}.apply()")),
        }
    }

    /// Where the packet goes, decided anew.
    pub(super) fn destination(&mut self, scope: &Scope, out: &mut Vec<Stmt>) {
        let drop = self.chance(25);
        let reason = self.chance(50) && self.reasons;
        let mut lines = Vec::new();
        match (self.arch(), scope.role) {
            (Arch::V1Model, Role::Ingress | Role::Egress) if drop => lines.push(Stmt::plain("mark_to_drop(sm)")),
            (Arch::V1Model, Role::Ingress) => lines.push(self.egress_spec(scope)),
            (Arch::Pna, Role::Ingress) if drop => lines.push(Stmt::plain("drop_packet()")),
            (Arch::Pna, Role::Ingress) => lines.push(self.send_to_port(scope)),
            _ => {}
        }
        if reason {
            lines.push(Stmt::plain(match drop {
                true => format!("meta.drop_reason = drop_reason_t.{}", ["first", "second"][self.rng.usize(..2)]),
                false => format!("meta.cpu_reason = cpu_reason_t.{}", ["punt_a", "punt_b"][self.rng.usize(..2)]),
            }));
        }
        if drop {
            let cond = self.rare(scope);
            out.push(Stmt::If { cond, then: lines, els: Vec::new() });
        } else {
            out.extend(lines);
        }
    }

    /// v1model: one of the first ports, which include the drop port's neighbours seldom.
    pub(super) fn egress_spec(&mut self, scope: &Scope) -> Stmt {
        let port = self.reading(Ty::Bit(9), scope);
        let mask = if self.chance(95) { 7 } else { 511 };
        Stmt::assign("sm.egress_spec", binary(Ty::Bit(9), "&", port, Expr::lit(Ty::Bit(9), mask)))
    }

    /// PNA: one of the first ports, or the CPU. The extern wants action data or a constant, so an action stands in between.
    pub(super) fn send_to_port(&mut self, scope: &Scope) -> Stmt {
        if self.chance(8) {
            return Stmt::plain("send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU)");
        }
        let port = self.reading(Ty::Bit(32), scope);
        let port = binary(Ty::Bit(32), "&", port, Expr::lit(Ty::Bit(32), 7));
        Stmt::Line(vec![text("send_it("), Part::Expr(port), text(")")])
    }
}
