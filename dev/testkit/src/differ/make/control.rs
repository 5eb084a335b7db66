//! Generates a control: its objects, actions, tables and body.

use super::super::tree::*;
use super::{BlockRole, ProgramGenerator, ScopeNames};
use ir::Arch;

impl ProgramGenerator<'_> {
    /// Generates a control of a block: local variables, objects, actions, tables, and the body that
    /// uses them.
    pub(super) fn control(&mut self, role: BlockRole) -> Control {
        self.objects.clear();
        self.callable.clear();
        self.unapplied.clear();
        let mut control = Control::default();
        let mut scope = self.block_scope(role);
        for _ in 0..self.rng.usize(..3) {
            let (name, ty) = (self.fresh_name("x"), self.random_type());
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
            self.generate_table(&scope, &mut control);
        }
        control.body = self.control_body(role, &scope);
        control
    }

    /// Generates an action that the body calls. Its parameters have directions or are given by
    /// value.
    fn callable_action(&mut self, scope: &ScopeNames) -> Action {
        let name = self.fresh_name("a");
        let mut params = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            let direction = ["in", "out", "inout", "in"][self.rng.usize(..4)];
            // Uses the type of a variable in scope, so that there is an argument to pass.
            let ty = match self.random_element(&scope.writes) {
                Some((_, ty)) => *ty,
                None => self.random_type(),
            };
            params.push(Param { direction, ty, name: self.fresh_name("q") });
        }
        if self.true_with_percent(30) {
            params.push(Param { direction: "", ty: self.random_type(), name: self.fresh_name("q") });
        }
        let body = self.action_body(&params, scope, Vec::new());
        Action { name, params, body }
    }

    /// Generates the statements of an action after `first`. Some assign action data to fields.
    pub(super) fn action_body(&mut self, params: &[Param], scope: &ScopeNames, first: Vec<Stmt>) -> Vec<Stmt> {
        let mut scope = scope.clone();
        scope.in_action = true;
        for param in params {
            // Added several times, so that action data is used often.
            for _ in 0..4 {
                scope.reads.push((param.name.clone(), param.ty));
            }
            if param.direction.ends_with("out") {
                scope.writes.push((param.name.clone(), param.ty));
            }
        }
        let mut body = first;
        for param in params.iter().filter(|param| param.direction.is_empty() && !param.name.is_empty()) {
            if self.true_with_percent(70)
                && let Some((place, ty)) = self.random_element(&scope.writes).cloned()
            {
                body.push(Stmt::assign(&place, Expr::place(param.ty, param.name.clone()).to(ty)));
            }
        }
        let count = self.rng.usize(..4);
        body.extend(self.random_block(count, 1, &scope));
        body
    }

    fn control_body(&mut self, role: BlockRole, scope: &ScopeNames) -> Vec<Stmt> {
        let mut body = Vec::new();
        match (self.arch(), role) {
            (Arch::V1Model, BlockRole::Ingress) => body.push(self.egress_spec(scope)),
            (Arch::Pna, _) => body.push(self.send_to_port(scope)),
            _ => {}
        }
        let count = self.rng.usize(self.config.statements.clone());
        body.extend(self.random_block(count, 2, scope));
        // All tables are applied, most of them at the top level of the control.
        for (table, actions) in std::mem::take(&mut self.unapplied) {
            let at = self.rng.usize(1..=body.len().max(1));
            let statement = self.application(&table, &actions, 1, scope);
            body.insert(at.min(body.len()), statement);
        }
        self.second_pass(role, scope, &mut body);
        body
    }

    /// Generates clones, resubmission, recirculation, mirroring and multicast, each for few
    /// packets.
    fn second_pass(&mut self, role: BlockRole, scope: &ScopeNames, body: &mut Vec<Stmt>) {
        let mut requests: Vec<String> = Vec::new();
        let session = self.rng.u32(1..5);
        let list = self.rng.u32(1..3);
        if self.passes {
            let candidates: &[String] = &match (self.arch(), role) {
                (Arch::V1Model, BlockRole::Ingress) => [
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
            requests.extend(self.random_element(candidates).cloned());
            if self.true_with_percent(40) {
                requests.extend(self.random_element(candidates).cloned());
            }
        }
        if self.multicast && self.arch() == Arch::V1Model && role == BlockRole::Ingress {
            requests.push(format!("sm.mcast_grp = {}", self.rng.u32(1..5)));
        }
        if self.passes && self.true_with_percent(15) && self.arch() == Arch::V1Model {
            requests.push(format!("truncate(32w{})", self.rng.u32(..100)));
        }
        // Conditions that rarely hold, because each pass costs a packet more.
        for request in requests {
            let cond = self.rare_condition(scope);
            let position = self.rng.usize(..=body.len());
            body.insert(position, Stmt::If { cond, then: vec![Stmt::plain(request)], els: Vec::new() });
        }
    }
}
