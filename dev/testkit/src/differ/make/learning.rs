//! Generates tables to which packets add entries, alone or in pairs, with ports of a pool and shares of
//! quotas.

use super::super::tree::*;
use super::{ProgramGenerator, ScopeNames};

impl ProgramGenerator<'_> {
    /// Generates a table with `add_on_miss`: one action for entries, and one that adds them.
    pub(super) fn learning_table(
        &mut self,
        name: &str,
        scope: &ScopeNames,
        control: &mut Control,
        table: &mut Table,
        first_stmts: &[Stmt],
    ) {
        let (hit_action, miss_action) = (format!("known_{name}"), format!("learn_{name}"));
        let mut params = self.table_params();
        if params.is_empty() {
            params.push(Param { direction: "", ty: Ty::Bit(16), name: self.fresh_name("q") });
        }
        let body = self.action_body(&params, scope, first_stmts.to_vec());
        let (mut miss_body, mut inner) = (Vec::new(), scope.clone());
        inner.in_action = true;
        if self.makes_session() {
            miss_body.push(self.take_port(control, scope));
            let field = |field: &str, ty| (format!("lease.{field}"), ty);
            inner.reads.extend([field("address", Ty::Bit(32)), field("port", Ty::Bit(16))]);
        }
        if self.makes_session() {
            miss_body.push(self.take_share(control, scope));
            inner.reads.push(("allowed".to_owned(), Ty::Bool));
        }
        miss_body.push(self.add_call(&hit_action, &params, &table.keys, &inner));
        inner.reads.push(("added".to_owned(), Ty::Bool));
        miss_body.extend(self.random_block(2, 1, &inner));
        if self.true_with_percent(30)
            && let Some((place, ty)) = self.random_element(&scope.writes).cloned()
        {
            let id = Expr::place(Ty::Bit(32), "((FlowIdUint_t) allocate_flow_id())");
            miss_body.push(Stmt::assign(&place, id.to(ty)));
        }
        if self.config.applied_twice != 0 && self.true_with_percent(self.config.applied_twice) {
            // Most add their entry at the second application.
            if self.true_with_percent(80) {
                control.declarations.push(format!("bool may_add_{name} = false"));
                let cond = Expr::place(Ty::Bool, format!("may_add_{name}"));
                miss_body = vec![Stmt::If { cond, then: miss_body, els: Vec::new() }];
            } else {
                control.declarations.push(format!("bool may_add_{name} = true"));
            }
            self.applied_twice.push(name.to_owned());
        }
        control.actions.push(Action { name: hit_action.clone(), params, body });
        control.actions.push(Action { name: miss_action.clone(), params: Vec::new(), body: miss_body });
        table.actions.push((format!("@tableonly {hit_action}"), Vec::new()));
        table.actions.push((format!("@defaultonly {miss_action}"), Vec::new()));
        table.properties.push(format!("const default_action = {miss_action}()"));
    }

    /// Generates the application of a table, and a second one by packets that miss, behind other steps.
    pub(super) fn two_applications(&mut self, table: &str, depth: u32, scope: &ScopeNames) -> Stmt {
        let count = self.rng.usize(..3);
        let mut then = self.random_block(count, depth, scope);
        let mut second = vec![Stmt::plain(format!("may_add_{table} = true")), Stmt::plain(format!("{table}.apply()"))];
        if self.true_with_percent(30) {
            let count = self.rng.usize(1..3);
            second.extend(self.random_block(count, depth, scope));
        }
        if self.true_with_percent(40) {
            let cond = self.random_expr(Ty::Bool, 2, scope);
            then.push(Stmt::If { cond, then: second, els: Vec::new() });
        } else {
            then.extend(second);
        }
        let count = self.rng.usize(..2);
        let els = self.random_block(count, depth, scope);
        Stmt::If { cond: Expr::place(Ty::Bool, format!("{table}.apply().miss")), then, els }
    }

    /// Decides about a pair, a port or a share. Without sessions, the random numbers of other choices stay the
    /// same.
    fn makes_session(&mut self) -> bool {
        self.config.sessions != 0 && self.true_with_percent(self.config.sessions)
    }

    /// Generates a call of `add_entry`, or of `add_entry_pair` with any twin's key.
    fn add_call(&mut self, action: &str, params: &[Param], keys: &[Key], scope: &ScopeNames) -> Stmt {
        let is_pair = self.makes_session();
        let function = if is_pair { "add_entry_pair" } else { "add_entry" };
        let mut call = vec![text(format!("bool added = {function}(action_name = \"{action}\", action_params = "))];
        let types: Vec<Ty> = params.iter().map(|param| param.ty).collect();
        call.extend(self.data_list(&types, scope));
        if is_pair {
            call.push(text(", twin_key = "));
            let types: Vec<Ty> = keys.iter().map(|key| key.value.ty).collect();
            call.extend(self.data_list(&types, scope));
            call.push(text(format!(", twin_action_name = \"{action}\", twin_params = ")));
            let types: Vec<Ty> = params.iter().map(|param| param.ty).collect();
            call.extend(self.data_list(&types, scope));
        }
        let profile = self.rng.u8(..3);
        call.push(text(format!(", expire_time_profile_id = (ExpireTimeProfileId_t) 8w{profile})")));
        Stmt::Line(call)
    }

    /// Generates values of these types: a list, or a single value.
    fn data_list(&mut self, types: &[Ty], scope: &ScopeNames) -> Vec<TextPart> {
        let mut list = vec![text(if types.len() == 1 { "" } else { "{ " })];
        for (index, ty) in types.iter().enumerate() {
            list.push(text(if index > 0 { ", " } else { "" }));
            list.push(TextPart::Expr(self.random_expr(*ty, 1, scope)));
        }
        list.push(text(if types.len() == 1 { "" } else { " }" }));
        list
    }

    /// Declares a pool, and generates a declaration of `lease` with a port of it. Most requests
    /// are valid, and some subscribers reach their quota.
    fn take_port(&mut self, control: &mut Control, scope: &ScopeNames) -> Stmt {
        let pool = self.fresh_name("pool");
        let rest = [0, 1, 120][self.rng.usize(..3)];
        control.declarations.push(format!("PortPool(32w3, 32w4, 32w2, 32w{rest}) {pool}"));
        let mut call = vec![text(format!("PortLease_t lease = {pool}.take("))];
        let limits = [(32, 1), (32, 3), (32, 3), (32, 3), (8, 1), (32, u32::MAX)];
        for (index, (width, mask)) in limits.into_iter().enumerate() {
            call.push(text(if index > 0 { ", (" } else { "(" }));
            call.push(TextPart::Expr(self.random_expr(Ty::Bit(width), 1, scope)));
            call.push(text(format!(") & {width}w{mask}")));
        }
        call.push(text(")"));
        Stmt::Line(call)
    }

    /// Declares a quota, and generates a declaration of `allowed`: whether a share of it was taken. Some
    /// owners do not exist, and some reach their limit.
    fn take_share(&mut self, control: &mut Control, scope: &ScopeNames) -> Stmt {
        let quota = self.fresh_name("quota");
        control.declarations.push(format!("EntryQuota(32w3) {quota}"));
        let mut call = vec![text(format!("bool allowed = {quota}.take("))];
        for (index, mask) in [3, 7].into_iter().enumerate() {
            call.push(text(if index > 0 { ", (" } else { "(" }));
            call.push(TextPart::Expr(self.random_expr(Ty::Bit(32), 1, scope)));
            call.push(text(format!(") & 32w{mask}")));
        }
        call.push(text(")"));
        Stmt::Line(call)
    }
}
