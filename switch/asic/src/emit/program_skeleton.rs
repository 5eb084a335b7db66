//! Program skeleton: includes, types, parameters and `main`.

use super::body::BodyWriter;
use super::expr::type_text;
use super::storage::{VarStorage, union_elements, union_type};
use super::text::{IndentedText, P4Stmt, line};
use super::{EmitResult, P4Emitter, parser};
use ir::*;

impl<'a> P4Emitter<'a> {
    /// Returns the text of the program.
    pub(super) fn program_text(&mut self) -> EmitResult<String> {
        let mut blocks = Vec::new();
        for n in 0..self.p.controls.len() {
            blocks.push(self.block_text(ControlId(u32::try_from(n).unwrap_or(u32::MAX)))?);
        }
        let mut lines = IndentedText::default();
        lines.line(&format!("// {}, written by Terrace from its pipeline.", self.p.name));
        lines.line("");
        lines.line("#include <core.p4>");
        lines.line(&format!("#include <{}.p4>", self.target.name()));
        self.write_types(&mut lines, &[]);
        lines.separate();
        for id in self.p.externs.iter().map(|(id, _)| id).filter(|id| self.names.global.contains(id)) {
            self.write_object(&mut lines, id, "")?;
        }
        blocks.iter().for_each(|text| {
            lines.separate();
            lines.out.push_str(text);
        });
        lines.separate();
        let annotations: Vec<&String> = self.p.annotations.iter().collect();
        annotations.iter().for_each(|a| lines.line(a));
        lines.line(&self.main_text());
        Ok(lines.out)
    }

    fn control_of(&self, kind: ControlKind) -> String {
        let of = self.p.controls.values().find(|c| c.kind == kind);
        of.map(|c| format!("{}()", c.name)).unwrap_or_default()
    }

    fn main_text(&self) -> String {
        use ControlKind::*;
        let (package, kinds) = match self.p.arch {
            Arch::V1Model => ("V1Switch", vec![Parser, VerifyChecksum, Ingress, Egress, ComputeChecksum, Deparser]),
            Arch::Pna => ("PNA_NIC", vec![MainParser, PreControl, MainControl, MainDeparser]),
        };
        let args: Vec<String> = kinds.into_iter().map(|kind| self.control_of(kind)).collect();
        format!("{package}({}) main;", args.join(", "))
    }

    /// Returns the parameter list of a programmable block in its architecture.
    fn block_params(&self, kind: ControlKind) -> String {
        let (hdr, meta) = (&self.names.storage.hdr, &self.names.storage.meta);
        let inout_params = format!("inout headers_t {hdr}, inout metadata_t {meta}");
        match kind {
            ControlKind::Parser => format!(
                "packet_in packet, out headers_t {hdr}, inout metadata_t {meta}, inout standard_metadata_t standard_metadata"
            ),
            ControlKind::VerifyChecksum | ControlKind::ComputeChecksum => inout_params,
            ControlKind::Ingress | ControlKind::Egress => {
                format!("{inout_params}, inout standard_metadata_t standard_metadata")
            }
            ControlKind::Deparser => format!("packet_out packet, in headers_t {hdr}"),
            ControlKind::MainParser => format!(
                "packet_in packet, out headers_t {hdr}, inout metadata_t {meta}, in pna_main_parser_input_metadata_t parser_istd"
            ),
            ControlKind::PreControl => format!(
                "in headers_t {hdr}, inout metadata_t {meta}, in pna_pre_input_metadata_t pre_istd, \
                 inout pna_pre_output_metadata_t pre_ostd"
            ),
            ControlKind::MainControl => {
                format!("{inout_params}, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd")
            }
            ControlKind::MainDeparser => format!(
                "packet_out packet, in headers_t {hdr}, in metadata_t {meta}, in pna_main_output_metadata_t ostd"
            ),
        }
    }

    /// Returns the text of a programmable block.
    fn block_text(&mut self, id: ControlId) -> EmitResult<String> {
        let control = &self.p.controls[id];
        let is_parser = control.kind.is_parser();
        let mut writer = BodyWriter::new(self, control.kind, &control.body);
        let (states, code) =
            if is_parser { (writer.parser_states()?, Vec::new()) } else { (Vec::new(), writer.write_control()?) };
        let decls = std::mem::take(&mut writer.decls);
        let mut lines = IndentedText::default();
        let keyword = if is_parser { "parser" } else { "control" };
        lines.open_block(&format!("{keyword} {}({})", control.name, self.block_params(control.kind)));
        // Unused objects are declared as well, because the control plane knows them.
        let is_own_name = |name: &str| name.starts_with(&format!("{}.", control.name));
        for (object, data) in self.p.externs.iter().filter(|(o, _)| !self.names.global.contains(o)) {
            let mentions_it = |m: &super::mentions::Mentions| m.externs.contains(&object);
            let is_mentioned = mentions_it(&self.names.mentions[id.index()]);
            if is_mentioned || (is_own_name(&data.preamble.name) && !self.names.mentions.iter().any(mentions_it)) {
                self.write_object(&mut lines, object, &control.name)?;
            }
        }
        for (set, data) in self.p.value_sets.iter() {
            let mentions_it = |m: &super::mentions::Mentions| m.value_sets.contains(&set);
            let is_mentioned = mentions_it(&self.names.mentions[id.index()]);
            if is_mentioned || (is_own_name(&data.preamble.name) && !self.names.mentions.iter().any(mentions_it)) {
                self.write_value_set(&mut lines, set, &control.name);
            }
        }
        self.declare_locals(&mut lines, id);
        decls.iter().for_each(|decl| lines.line(decl));
        if is_parser {
            parser::write_states(&mut lines, &states);
            lines.close_block();
            return Ok(lines.out);
        }
        let tables: Vec<TableId> =
            self.p.tables.iter().map(|(t, _)| t).filter(|t| self.declaring_block(*t) == id).collect();
        let called = self.called_actions(id);
        for action in self.p.actions.iter().map(|(a, _)| a) {
            let lists_action = |t: &TableId| self.p.tables[*t].actions.iter().any(|a| a.action == action);
            if tables.iter().any(lists_action) || called.contains(&action) {
                self.write_action(&mut lines, action, &control.name);
            }
        }
        for table in &tables {
            self.write_table(&mut lines, *table, &control.name, &decls)?;
        }
        lines.separate();
        let calls: Vec<P4Stmt> = called.iter().map(|a| line(format!("{}();", self.names.actions[a.index()]))).collect();
        let unused = self.unreachable_uses(id, &tables);
        if calls.is_empty() && code.is_empty() && unused.is_empty() {
            lines.line("apply { }");
        } else {
            lines.open_block("apply");
            if !calls.is_empty() {
                lines.line(
                    "// The code of these actions is inlined below; the calls make their names known to the control plane.",
                );
            }
            lines.stmts(&calls);
            lines.stmts(&unused);
            lines.stmts(&code);
            lines.close_block();
        }
        lines.close_block();
        Ok(lines.out)
    }

    /// Returns the block in which a table is declared.
    pub(super) fn declaring_block(&self, table: TableId) -> ControlId {
        let applies = |id: &ControlId| self.names.mentions[id.index()].tables.contains(&table);
        let ids = || self.p.controls.iter().map(|(id, _)| id);
        let name = &self.p.tables[table].preamble.name;
        ids()
            .find(applies)
            .or_else(|| ids().find(|id| name.starts_with(&format!("{}.", self.p.controls[*id].name))))
            .or_else(|| ids().find(|id| self.is_main(*id)))
            .unwrap_or(ControlId(0))
    }

    fn is_main(&self, id: ControlId) -> bool {
        matches!(self.p.controls[id].kind, ControlKind::Ingress | ControlKind::MainControl)
    }

    /// Returns unreachable code that uses tables and digests without a reachable use, because
    /// P4Info lists them only if code uses them. The condition is a variable, so that the compiler
    /// does not remove the code before it generates P4Info.
    fn unreachable_uses(&self, id: ControlId, tables: &[TableId]) -> Vec<P4Stmt> {
        let mut then = self.unsent_digests(id);
        if !self.target.is_tofino() {
            let applied = |t: &TableId| self.names.mentions[id.index()].tables.contains(t);
            let unapplied = tables.iter().filter(|t| !applied(t));
            then.extend(unapplied.map(|t| line(format!("{}.apply();", self.names.tables[t.index()]))));
        }
        if then.is_empty() {
            return Vec::new();
        }
        let never = line("bool no_packet_gets_here = false;");
        vec![never, P4Stmt::If { cond: "no_packet_gets_here".into(), then, els: Vec::new() }]
    }

    /// Returns sends of digests without a reachable use, because v1model declares digests by
    /// sending them.
    fn unsent_digests(&self, id: ControlId) -> Vec<P4Stmt> {
        if self.target != super::EmitTarget::V1Model || !self.is_main(id) {
            return Vec::new();
        }
        let sent = |o: &ExternId| self.names.mentions.iter().any(|m| m.externs.contains(o));
        let digests = self.p.externs.iter().filter(|(o, e)| matches!(e.kind, ExternKind::Digest { .. }) && !sent(o));
        let statement = |(object, _): (ExternId, &ExternInst)| {
            let ty = self.digest_type(Some(object));
            let then = vec![line(format!("{ty} unsent;")), line(format!("digest<{ty}>(1, unsent);"))];
            // The `if` provides a scope for the variable.
            P4Stmt::If { cond: "no_packet_gets_here".into(), then, els: Vec::new() }
        };
        digests.map(statement).collect()
    }

    /// Returns actions that code calls and no table lists. Their code is inlined, but P4Info
    /// contains them.
    fn called_actions(&self, id: ControlId) -> Vec<ActionId> {
        let listed = |a: ActionId| self.p.tables.values().any(|t| t.actions.iter().any(|r| r.action == a));
        let unlisted = self.p.actions.iter().filter(|(a, _)| !listed(*a));
        let prefix = |c: ControlId| format!("{}.", self.p.controls[c].name);
        let own = |(_, action): &(ActionId, &Action)| {
            let name = &action.preamble.name;
            let of = self.p.controls.iter().map(|(c, _)| c).find(|c| name.starts_with(&prefix(*c)));
            of.map_or(self.is_main(id), |c| c == id)
        };
        unlisted.filter(own).map(|(a, _)| a).collect()
    }

    /// Declares the local variables and headers of a block.
    pub(super) fn declare_locals(&self, lines: &mut IndentedText, id: ControlId) {
        let p = self.p;
        let mentions = &self.names.mentions[id.index()];
        let mut containers: Vec<String> = Vec::new();
        for header in mentions.headers.iter().filter(|h| p.headers[**h].local) {
            let ty = &p.header_types[p.headers[*header].ty].name;
            let Some((container, _)) = self.names.storage.local_container(p, *header) else {
                lines.line(&format!("{ty} {};", self.names.headers[header.index()]));
                continue;
            };
            if containers.contains(&container) {
                continue;
            }
            let name = self.names.storage.containers.get(&container).cloned().unwrap_or_default();
            let stack = p.stacks.values().find(|s| s.name == container);
            let text = match (stack, p.headers[*header].union) {
                (Some(stack), None) => format!("{ty}[{}] {name};", stack.elements.len()),
                (Some(_), Some(union)) => {
                    format!("{}[{}] {name};", union_type(p, union), union_elements(p, &container).len())
                }
                (None, Some(union)) => format!("{} {name};", union_type(p, union)),
                (None, None) => continue,
            };
            lines.line(&text);
            containers.push(container);
        }
        for var in &mentions.vars {
            if let Some(VarStorage::Local) = self.names.storage.storage_of(*var) {
                lines.line(&format!("{} {};", type_text(p, p.vars[*var].ty), self.names.vars[var.index()]));
            }
        }
    }
}
