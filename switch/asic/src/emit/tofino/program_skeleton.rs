//! Program skeleton for TNA and T2NA.

use crate::emit::body::BodyWriter;
use crate::emit::text::{IndentedText, line};
use crate::emit::tofino::gress_split;
use crate::emit::tofino::legalizer::DeparserChecksum;
use crate::emit::{EmitResult, P4Emitter, P4Stmt, parser};
use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum group size that fits in one RAM word of a selector; larger groups take several words.
const MAX_GROUP: u64 = 120;

fn hash_algorithm(algorithm: &HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => "CRC16",
        HashAlgorithm::Identity => "IDENTITY",
        HashAlgorithm::Random => "RANDOM",
        HashAlgorithm::Xor16 | HashAlgorithm::Csum16 => "XOR16",
        _ => "CRC32",
    }
}

impl P4Emitter<'_> {
    /// Returns the text of the program. `deparsed` has the checksums that the deparsers compute.
    pub(in crate::emit) fn tofino_text(&mut self, deparsed: &[DeparserChecksum]) -> EmitResult<String> {
        let control_of = |p: &Pipeline, kind| p.controls.iter().find(|(_, c)| c.kind == kind).map(|(id, _)| id);
        let kinds = [ControlKind::MainParser, ControlKind::MainControl, ControlKind::MainDeparser];
        let [Some(parser), Some(main), Some(deparser)] = kinds.map(|kind| control_of(self.p, kind)) else {
            return self.unsupported(SourceLoc::default(), "a program without parser, main control or deparser");
        };
        let kinds = [ControlKind::Parser, ControlKind::Egress, ControlKind::Deparser];
        let egress = match kinds.map(|kind| control_of(self.p, kind)) {
            [Some(parser), Some(control), Some(deparser)] => Some([parser, control, deparser]),
            _ => None,
        };
        let mut texts = vec![self.tofino_parser(parser)?, self.tofino_control(main)?];
        let sums = self.checksums_after(main, deparsed);
        texts.push(self.tofino_deparser(deparser, &sums)?);
        match egress {
            Some([parser, control, deparser]) => {
                texts.extend([self.tofino_parser(parser)?, self.tofino_control(control)?]);
                let sums = self.checksums_after(control, deparsed);
                texts.push(self.tofino_deparser(deparser, &sums)?);
            }
            None => texts.push(self.empty_egress_text()),
        }
        let mut lines = IndentedText::default();
        let name = self.p.name.clone();
        let gress_text = match egress {
            Some(_) => "Egress continues after the port decision.",
            None => "All of it runs in ingress; egress is bypassed.",
        };
        lines.line(&format!("// {name} for Tofino, written by Terrace from its pipeline. {gress_text}"));
        if !self.left_out.is_empty() {
            lines.line("//");
            lines.line("// Omitted, because the chip cannot express it:");
            let left_out = self.left_out.clone();
            left_out.iter().for_each(|construct| lines.line(&format!("// - {construct}")));
        }
        lines.line("");
        lines.line("#include <core.p4>");
        lines.line(&format!("#include <{}.p4>", self.target.name()));
        lines.separate();
        lines.line("/// Port of the CPU's Ethernet interface, for packets to the CPU.");
        lines.line("const PortId_t CPU_PORT = 64;");
        self.write_types(&mut lines, &[]);
        if egress.is_none() {
            lines.separate();
            lines.line("struct egress_headers_t { }");
            lines.line("struct egress_metadata_t { }");
        }
        for text in texts {
            lines.separate();
            lines.out.push_str(&text);
        }
        lines.separate();
        let mut blocks = [parser, main, deparser].map(|id| self.p.controls[id].name.clone()).to_vec();
        blocks.extend(match egress {
            Some(ids) => ids.map(|id| self.p.controls[id].name.clone()),
            None => ["egress_parser", "egress", "egress_deparser"].map(str::to_owned),
        });
        lines.line(&format!("Pipeline({}()) pipe;", blocks.join("(), ")));
        lines.line("Switch(pipe) main;");
        Ok(lines.out)
    }

    /// Returns the checksums that the deparser after a control computes.
    fn checksums_after(&self, control: ControlId, deparsed: &[DeparserChecksum]) -> Vec<DeparserChecksum> {
        let body = &self.p.controls[control].body;
        deparsed.iter().filter(|sum| gress_split::writes_var(body, sum.update_flag)).cloned().collect()
    }

    fn header_and_metadata_names(&self) -> (String, String) {
        (self.names.storage.hdr.clone(), self.names.storage.meta.clone())
    }

    /// Returns the text of a parser, after the extraction of the chip's own metadata.
    fn tofino_parser(&mut self, id: ControlId) -> EmitResult<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.header_and_metadata_names();
        let mut writer = BodyWriter::new(self, control.kind, &control.body);
        let states = writer.parser_states()?;
        let decls = std::mem::take(&mut writer.decls);
        let mut lines = IndentedText::default();
        let (gress, intrinsic) = match control.kind {
            ControlKind::Parser => ("egress", "eg_intr_md"),
            _ => ("ingress", "ig_intr_md"),
        };
        lines.open_block(&format!(
            "parser {}(packet_in packet, out headers_t {hdr}, out metadata_t {meta}, out {gress}_intrinsic_metadata_t {intrinsic})",
            control.name
        ));
        for object in &self.names.mentions[id.index()].externs {
            if matches!(self.p.externs[*object].kind, ExternKind::InternetChecksum) {
                lines.line(&format!("Checksum() {};", self.names.externs[object.index()]));
            }
        }
        for set in &self.names.mentions[id.index()].value_sets {
            self.write_value_set(&mut lines, *set, &control.name);
        }
        self.declare_locals(&mut lines, id);
        decls.iter().for_each(|decl| lines.line(decl));
        lines.separate();
        lines.open_block("state start");
        lines.line(&format!("packet.extract({intrinsic});"));
        if control.kind != ControlKind::Parser {
            lines.line("packet.advance(PORT_METADATA_SIZE);");
        }
        lines.line("transition parse_packet;");
        lines.close_block();
        parser::write_states(&mut lines, &parser::rename_state(states, "start", "parse_packet"));
        lines.close_block();
        Ok(lines.out)
    }

    /// Returns the text of a control with its objects, actions and tables. Without a split into
    /// gresses, all packets bypass egress.
    fn tofino_control(&mut self, id: ControlId) -> EmitResult<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.header_and_metadata_names();
        let mut writer = BodyWriter::new(self, control.kind, &control.body);
        let code = writer.write_control()?;
        let code = writer.split_into_actions(code);
        let decls = std::mem::take(&mut writer.decls);
        let mut lines = IndentedText::default();
        let intrinsics = match control.kind {
            ControlKind::Egress => {
                "in egress_intrinsic_metadata_t eg_intr_md, in egress_intrinsic_metadata_from_parser_t eg_prsr_md, \
                 inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md, \
                 inout egress_intrinsic_metadata_for_output_port_t eg_oport_md"
            }
            _ => {
                "in ingress_intrinsic_metadata_t ig_intr_md, in ingress_intrinsic_metadata_from_parser_t ig_prsr_md, \
                 inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md, \
                 inout ingress_intrinsic_metadata_for_tm_t ig_tm_md"
            }
        };
        let gress = if control.kind == ControlKind::Egress { "egress" } else { "ingress" };
        for var in read_on_early_exits(self.p, &control.body) {
            lines.line(&format!("@pa_no_overlay(\"{gress}\", \"{}\")", self.var_name(var)));
        }
        let name = &control.name;
        lines.open_block(&format!("control {name}(inout headers_t {hdr}, inout metadata_t {meta}, {intrinsics})"));
        for object in self.names.mentions[id.index()].externs.clone() {
            self.tofino_object(&mut lines, object, &control.name)?;
        }
        self.declare_locals(&mut lines, id);
        decls.iter().for_each(|decl| lines.line(decl));
        // Tables that only the lower tier applies are not declared.
        let tables: Vec<TableId> = self.names.mentions[id.index()].tables.iter().copied().collect();
        for action in self.p.actions.iter().map(|(a, _)| a) {
            let lists_action = |t: &TableId| self.p.tables[*t].actions.iter().any(|a| a.action == action);
            if tables.iter().any(lists_action) {
                self.write_action(&mut lines, action, &control.name);
            }
        }
        for table in tables {
            self.write_table(&mut lines, table, &control.name, &decls)?;
        }
        lines.separate();
        lines.open_block("apply");
        if !self.p.intrinsics.contains_key(gress_split::BYPASS) {
            lines.stmts(&[line("ig_tm_md.bypass_egress = 1;")]);
        }
        lines.stmts(&code);
        lines.close_block();
        lines.close_block();
        Ok(lines.out)
    }

    /// Writes the declaration of an extern object, with its annotations. An object that TNA does
    /// not declare is left out.
    fn tofino_object(&self, lines: &mut IndentedText, id: ExternId, control: &str) -> EmitResult<()> {
        let object = &self.p.externs[id];
        let name = &self.names.externs[id.index()];
        let counter_type = |unit: &CounterUnit| match unit {
            CounterUnit::Packets => "CounterType_t.PACKETS",
            CounterUnit::Bytes => "CounterType_t.BYTES",
            CounterUnit::Both => "CounterType_t.PACKETS_AND_BYTES",
        };
        let meter_type = |unit: &MeterUnit| match unit {
            MeterUnit::Packets => "MeterType_t.PACKETS",
            MeterUnit::Bytes => "MeterType_t.BYTES",
        };
        let type_text = |ty: Type| crate::emit::expr::type_text(self.p, ty);
        let text = match &object.kind {
            ExternKind::Counter { size, unit: u, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                format!("Counter<bit<64>, bit<{}>>({size}, {})", self.index_width(id).unwrap_or(32), counter_type(u))
            }
            ExternKind::DirectCounter { unit: u } => format!("DirectCounter<bit<64>>({})", counter_type(u)),
            ExternKind::Hash { algorithm, output } => {
                let algorithm = hash_algorithm(algorithm);
                // One hash unit for each use, because a unit hashes a single list of fields.
                for n in 1..=self.hash_use_count(id) {
                    let number = if n == 1 { String::new() } else { format!("_{n}") };
                    lines.line(&format!("Hash<{}>(HashAlgorithm_t.{algorithm}) {name}{number};", type_text(*output)));
                }
                return Ok(());
            }
            ExternKind::Random { min, .. } => format!("Random<{}>()", type_text(min.ty)),
            ExternKind::ActionProfile { size } => format!("ActionProfile({size})"),
            ExternKind::Meter { size, unit, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                format!("Meter<bit<{}>>({size}, {})", self.index_width(id).unwrap_or(32), meter_type(unit))
            }
            ExternKind::DirectMeter { unit } => format!("DirectMeter({})", meter_type(unit)),
            ExternKind::Register { size, elem, initial, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                let elem = elem.first().copied().map(type_text).unwrap_or_default();
                let initial_text = initial.first().map(|c| format!(", {}", crate::emit::expr::number_text(&c.bits)));
                let index = self.index_width(id).unwrap_or(32);
                format!("Register<{elem}, bit<{index}>>({size}{})", initial_text.unwrap_or_default())
            }
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                let algorithm = hash_algorithm(algorithm);
                lines.line(&format!("Hash<bit<{output_width}>>(HashAlgorithm_t.{algorithm}) {name}_hash;"));
                lines.line(&format!("ActionProfile({size}) {name}_members;"));
                let groups = self.p.tables.values().filter(|t| t.implementation == Some(id)).filter_map(|t| t.size);
                let groups = groups.max().unwrap_or(*size);
                let max_group = size.min(&MAX_GROUP);
                format!("ActionSelector({name}_members, {name}_hash, SelectorMode_t.FAIR, {max_group}, {groups})")
            }
            _ => return Ok(()),
        };
        let annotations = self.annotations(&object.preamble, control, name);
        annotations.iter().for_each(|a| lines.line(a));
        lines.line(&format!("{text} {name};"));
        Ok(())
    }

    fn hash_use_count(&self, id: ExternId) -> usize {
        self.p
            .insts()
            .filter(|i| matches!(&i.inst, Inst::Extern { object: Some(o), func: ExternFn::HashGet, .. } if *o == id))
            .count()
    }

    /// Returns the text of a deparser: the updates of its checksums, then the headers in order.
    /// Anything else is an error, because the chip's deparser has no other instructions.
    fn tofino_deparser(&mut self, id: ControlId, deparsed: &[DeparserChecksum]) -> EmitResult<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.header_and_metadata_names();
        let mut lines = IndentedText::default();
        let intrinsic = match control.kind {
            ControlKind::Deparser => "egress_intrinsic_metadata_for_deparser_t eg_dprsr_md",
            _ => "ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md",
        };
        let name = &control.name;
        lines.open_block(&format!(
            "control {name}(packet_out packet, inout headers_t {hdr}, in metadata_t {meta}, in {intrinsic})"
        ));
        let mut updates = Vec::new();
        for sum in deparsed {
            let name = self.names.fresh_name("checksum");
            lines.line(&format!("Checksum() {name};"));
            updates.push((name, sum.clone()));
        }
        let mut writer = BodyWriter::new(self, control.kind, &control.body);
        let code = writer.write_control()?;
        let decls = std::mem::take(&mut writer.decls);
        let has_local_header =
            self.names.mentions[id.index()].headers.iter().any(|header| self.p.headers[*header].local);
        if has_local_header || !code.iter().all(|stmt| matches!(stmt, P4Stmt::Line(_))) {
            let locs = control.body.insts().filter(|data| !matches!(data.inst, Inst::Emit(_))).map(|data| data.loc);
            let reason = "a deparser that decides or computes: the chip's deparser only emits valid headers";
            return self.unsupported(locs.max_by_key(|loc| loc.line).unwrap_or_default(), reason);
        }
        decls.iter().for_each(|decl| lines.line(decl));
        lines.separate();
        lines.open_block("apply");
        for (name, sum) in updates {
            let over: Vec<String> = sum.over.iter().map(|v| self.var_name(*v)).collect();
            lines.open_block(&format!("if ({})", self.var_name(sum.update_flag)));
            lines.line(&format!("{} = {name}.update({{", self.var_name(sum.field)));
            lines.line(&format!("    {}", over.join(", ")));
            lines.line("});");
            lines.close_block();
        }
        lines.stmts(&code);
        lines.close_block();
        lines.close_block();
        Ok(lines.out)
    }

    fn empty_egress_text(&self) -> String {
        "parser egress_parser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t meta,
                     out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        transition accept;
    }
}

control egress(inout egress_headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply { }
}

control egress_deparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
                        in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply { }
}
"
        .to_owned()
    }
}

/// Returns metadata that a packet reads on an early exit. The compiler could overlay its container
/// with a variable that is written on the other path, and then finds no order of both (p4c's tofino
/// back-end: `mau/table_injected_deps.cpp`, "Live ranges overlap").
fn read_on_early_exits(p: &Pipeline, body: &Body) -> BTreeSet<VarId> {
    let order = reverse_postorder(body);
    let next = |b: Block| body.blocks[b].successors();
    // The most table applications on any path to each block.
    let mut lookups: BTreeMap<Block, usize> = BTreeMap::new();
    for block in &order {
        let before = lookups.get(block).copied().unwrap_or(0);
        let own_lookup = usize::from(body.blocks[*block].applied_table().is_some());
        for b in next(*block) {
            let max_lookups = lookups.entry(b).or_insert(0);
            *max_lookups = (*max_lookups).max(before + own_lookup);
        }
    }
    // Packets that pass all lookups reach the end of the control.
    let max_total = lookups.values().max().copied().unwrap_or(0);
    let mut on_full_path: BTreeSet<Block> = BTreeSet::new();
    for block in order.iter().rev() {
        let looks_up = body.blocks[*block].applied_table().is_some();
        let is_after_all = lookups.get(block).copied().unwrap_or(0) == max_total;
        // A block that all exits share does not identify a path.
        let is_shared_exit = body.blocks[*block].insts.is_empty() && next(*block).is_empty();
        if !is_shared_exit && (looks_up || is_after_all || next(*block).iter().any(|b| on_full_path.contains(b))) {
            on_full_path.insert(*block);
        }
    }
    // Values used on exits can be loaded earlier; expressions are emitted at their use.
    let mut values: Vec<Value> = Vec::new();
    for data in order.iter().filter(|b| !on_full_path.contains(b)).map(|b| &body.blocks[*b]) {
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| values.push(v)));
        data.insts.iter().for_each(|i| values.extend(&i.results));
        data.term.iter().for_each(|t| t.term.for_each_use(|v| values.push(v)));
    }
    let (mut seen, mut vars) = (BTreeSet::new(), BTreeSet::new());
    while let Some(value) = values.pop() {
        let Some(data) = body.defining_inst(value).filter(|_| seen.insert(value)) else { continue };
        match data.inst {
            Inst::Load(var) if p.vars[var].kind == VarKind::Meta => _ = vars.insert(var),
            _ => data.inst.for_each_use(|v| values.push(v)),
        }
    }
    vars
}
