//! A control: its objects, actions, tables and body.

use super::super::tree::*;
use super::{Maker, Role, Scope};
use ir::Arch;

impl Maker<'_> {
    /// Makes a control. `first` are statements at the beginning of its body.
    pub(super) fn control(&mut self, role: Role) -> Control {
        self.objects.clear();
        self.callable.clear();
        self.unapplied.clear();
        let mut control = Control::default();
        let mut scope = self.scope(role);
        for _ in 0..self.rng.usize(..3) {
            let (name, ty) = (self.name("x"), self.ty());
            control.declarations.push(format!("{ty} {name}"));
            scope.reads.push((name.clone(), ty));
            scope.writes.push((name, ty));
        }
        self.declare_objects(role, &mut control);
        if self.arch() == Arch::Pna {
            let params = vec![Param { direction: "", ty: Ty::Bit(32), name: "port".to_owned() }];
            let body = vec![Stmt::plain("send_to_port((PortId_t) port)")];
            control.actions.push(Action { name: "send_it".to_owned(), params, body });
        }
        for _ in 0..self.rng.usize(self.config.actions.clone()) {
            let action = self.callable_action(&scope);
            self.callable.push(action.clone());
            control.actions.push(action);
        }
        for _ in 0..self.rng.usize(self.config.tables.clone()) {
            self.table(&scope, &mut control);
        }
        control.body = self.body(role, &scope);
        control
    }

    /// An action that is called from the body: parameters have directions, or are given by value.
    fn callable_action(&mut self, scope: &Scope) -> Action {
        let name = self.name("a");
        let mut params = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            let direction = ["in", "out", "inout", "in"][self.rng.usize(..4)];
            // Of a type that something in scope has, so that there is something to pass.
            let ty = match self.one(&scope.writes) {
                Some((_, ty)) => *ty,
                None => self.ty(),
            };
            params.push(Param { direction, ty, name: self.name("q") });
        }
        if self.chance(30) {
            params.push(Param { direction: "", ty: self.ty(), name: self.name("q") });
        }
        let body = self.action_body(&params, scope, Vec::new());
        Action { name, params, body }
    }

    /// Statements of an action, after some that are given.
    pub(super) fn action_body(&mut self, params: &[Param], scope: &Scope, first: Vec<Stmt>) -> Vec<Stmt> {
        let mut scope = scope.clone();
        scope.in_action = true;
        for param in params {
            // Several times: what the control plane says shall matter.
            for _ in 0..4 {
                scope.reads.push((param.name.clone(), param.ty));
            }
            if param.direction.ends_with("out") {
                scope.writes.push((param.name.clone(), param.ty));
            }
        }
        let mut body = first;
        for param in params.iter().filter(|param| param.direction.is_empty() && !param.name.is_empty()) {
            if self.chance(70)
                && let Some((place, ty)) = self.one(&scope.writes).cloned()
            {
                body.push(Stmt::assign(&place, Expr::place(param.ty, param.name.clone()).to(ty)));
            }
        }
        let count = self.rng.usize(..4);
        body.extend(self.block(count, 1, &scope));
        body
    }

    fn body(&mut self, role: Role, scope: &Scope) -> Vec<Stmt> {
        let mut body = Vec::new();
        match (self.arch(), role) {
            (Arch::V1Model, Role::Ingress) => body.push(self.egress_spec(scope)),
            (Arch::Pna, _) => body.push(self.send_to_port(scope)),
            _ => {}
        }
        let count = self.rng.usize(self.config.statements.clone());
        body.extend(self.block(count, 2, scope));
        // All tables are applied in the end, most of them at the top of the control.
        for (table, actions) in std::mem::take(&mut self.unapplied) {
            let at = self.rng.usize(1..=body.len().max(1));
            let statement = self.application(&table, &actions, 1, scope);
            body.insert(at.min(body.len()), statement);
        }
        self.second_pass(role, scope, &mut body);
        body
    }

    /// Clones, resubmission, recirculation, mirroring, multicast: each for few packets.
    fn second_pass(&mut self, role: Role, scope: &Scope, body: &mut Vec<Stmt>) {
        let mut requests: Vec<String> = Vec::new();
        let session = self.rng.u32(1..5);
        let list = self.rng.u32(1..3);
        if self.passes {
            let all: &[String] = &match (self.arch(), role) {
                (Arch::V1Model, Role::Ingress) => [
                    format!("clone(CloneType.I2E, {session})"),
                    format!("clone_preserving_field_list(CloneType.I2E, {session}, {list})"),
                    format!("resubmit_preserving_field_list({list})"),
                ],
                (Arch::V1Model, _) => [
                    format!("clone(CloneType.E2E, {session})"),
                    format!("clone_preserving_field_list(CloneType.E2E, {session}, {list})"),
                    format!("recirculate_preserving_field_list({list})"),
                ],
                (Arch::Pna, _) => [
                    "recirculate()".to_owned(),
                    format!("mirror_packet((MirrorSlotId_t) {}, (MirrorSessionId_t) 16w{session})", self.rng.u8(..5)),
                    format!("mirror_packet((MirrorSlotId_t) 1, (MirrorSessionId_t) 16w{})", self.rng.u8(..3)),
                ],
            };
            requests.extend(self.one(all).cloned());
            if self.chance(40) {
                requests.extend(self.one(all).cloned());
            }
        }
        if self.multicast && self.arch() == Arch::V1Model && role == Role::Ingress {
            requests.push(format!("sm.mcast_grp = {}", self.rng.u32(1..5)));
        }
        if self.passes && self.chance(15) && self.arch() == Arch::V1Model {
            requests.push(format!("truncate(32w{})", self.rng.u32(..100)));
        }
        for request in requests {
            let cond = self.rare(scope);
            let at = self.rng.usize(..=body.len());
            body.insert(at, Stmt::If { cond, then: vec![Stmt::plain(request)], els: Vec::new() });
        }
    }
}
