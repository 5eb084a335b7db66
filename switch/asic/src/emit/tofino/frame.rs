//! The program around the blocks, for TNA and T2NA.

use crate::emit::body::Writer;
use crate::emit::text::{Lines, line};
use crate::emit::tofino::halves;
use crate::emit::tofino::preparer::Deparsed;
use crate::emit::{Emitter, Res, Stmt, parser};
use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// Members that a selector's word of RAM has bits for; larger groups take more words.
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

impl Emitter<'_> {
    /// The whole program.
    pub(in crate::emit) fn tofino(&mut self, deparsed: &[Deparsed]) -> Res<String> {
        let of = |p: &Pipeline, kind| p.controls.iter().find(|(_, c)| c.kind == kind).map(|(id, _)| id);
        let kinds = [ControlKind::MainParser, ControlKind::MainControl, ControlKind::MainDeparser];
        let [Some(parser), Some(main), Some(deparser)] = kinds.map(|kind| of(self.p, kind)) else {
            return self.unsupported(Loc::default(), "a program without parser, main control or deparser");
        };
        let kinds = [ControlKind::Parser, ControlKind::Egress, ControlKind::Deparser];
        let egress = match kinds.map(|kind| of(self.p, kind)) {
            [Some(parser), Some(control), Some(deparser)] => Some([parser, control, deparser]),
            _ => None,
        };
        let mut texts = vec![self.tofino_parser(parser)?, self.tofino_control(main)?];
        let sums = self.sums_of(main, deparsed);
        texts.push(self.tofino_deparser(deparser, &sums)?);
        match egress {
            Some([parser, control, deparser]) => {
                texts.extend([self.tofino_parser(parser)?, self.tofino_control(control)?]);
                let sums = self.sums_of(control, deparsed);
                texts.push(self.tofino_deparser(deparser, &sums)?);
            }
            None => texts.push(self.no_egress()),
        }
        let mut lines = Lines::default();
        let name = self.p.name.clone();
        let halves = match egress {
            Some(_) => "Egress goes on where the packet's port is decided.",
            None => "All of it runs in ingress; egress is bypassed.",
        };
        lines.line(&format!("// {name} for Tofino, written by Terrace from its pipeline. {halves}"));
        if !self.left_out.is_empty() {
            lines.line("//");
            lines.line("// Not in here, as the chip has no form for it:");
            let left_out = self.left_out.clone();
            left_out.iter().for_each(|what| lines.line(&format!("// - {what}")));
        }
        lines.line("");
        lines.line("#include <core.p4>");
        lines.line(&format!("#include <{}.p4>", self.target.name()));
        lines.gap();
        lines.line("/// Where packets to the CPU leave: the port of the CPU's Ethernet interface.");
        lines.line("const PortId_t CPU_PORT = 64;");
        self.types(&mut lines, &[]);
        if egress.is_none() {
            lines.gap();
            lines.line("struct egress_headers_t { }");
            lines.line("struct egress_metadata_t { }");
        }
        for text in texts {
            lines.gap();
            lines.out.push_str(&text);
        }
        lines.gap();
        let mut blocks = [parser, main, deparser].map(|id| self.p.controls[id].name.clone()).to_vec();
        blocks.extend(match egress {
            Some(ids) => ids.map(|id| self.p.controls[id].name.clone()),
            None => ["egress_parser", "egress", "egress_deparser"].map(str::to_owned),
        });
        lines.line(&format!("Pipeline({}()) pipe;", blocks.join("(), ")));
        lines.line("Switch(pipe) main;");
        Ok(lines.out)
    }

    /// The checksums that the deparser behind a control computes.
    fn sums_of(&self, control: ControlId, deparsed: &[Deparsed]) -> Vec<Deparsed> {
        let body = &self.p.controls[control].body;
        deparsed.iter().filter(|sum| halves::stores(body, sum.wanted)).cloned().collect()
    }

    fn both(&self) -> (String, String) {
        (self.names.storage.hdr.clone(), self.names.storage.meta.clone())
    }

    fn tofino_parser(&mut self, id: ControlId) -> Res<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.both();
        let mut writer = Writer::new(self, control.kind, &control.body);
        let states = writer.parser()?;
        let decls = std::mem::take(&mut writer.decls);
        let mut lines = Lines::default();
        let (half, intrinsic) = match control.kind {
            ControlKind::Parser => ("egress", "eg_intr_md"),
            _ => ("ingress", "ig_intr_md"),
        };
        lines.open(&format!(
            "parser {}(packet_in packet, out headers_t {hdr}, out metadata_t {meta}, out {half}_intrinsic_metadata_t {intrinsic})",
            control.name
        ));
        for object in &self.names.mentions[id.index()].externs {
            if matches!(self.p.externs[*object].kind, ExternKind::InternetChecksum) {
                lines.line(&format!("Checksum() {};", self.names.externs[object.index()]));
            }
        }
        for set in &self.names.mentions[id.index()].value_sets {
            self.value_set(&mut lines, *set, &control.name);
        }
        self.locals(&mut lines, id);
        decls.iter().for_each(|decl| lines.line(decl));
        lines.gap();
        lines.open("state start");
        lines.line(&format!("packet.extract({intrinsic});"));
        if control.kind != ControlKind::Parser {
            lines.line("packet.advance(PORT_METADATA_SIZE);");
        }
        lines.line("transition parse_packet;");
        lines.close();
        parser::print(&mut lines, &parser::renamed(states, "start", "parse_packet"));
        lines.close();
        Ok(lines.out)
    }

    fn tofino_control(&mut self, id: ControlId) -> Res<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.both();
        let mut writer = Writer::new(self, control.kind, &control.body);
        let code = writer.control()?;
        let code = writer.steps(code);
        let decls = std::mem::take(&mut writer.decls);
        let mut lines = Lines::default();
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
        let half = if control.kind == ControlKind::Egress { "egress" } else { "ingress" };
        for var in asked_on_the_way_out(self.p, &control.body) {
            lines.line(&format!("@pa_no_overlay(\"{half}\", \"{}\")", self.var(var)));
        }
        let name = &control.name;
        lines.open(&format!("control {name}(inout headers_t {hdr}, inout metadata_t {meta}, {intrinsics})"));
        for object in self.names.mentions[id.index()].externs.clone() {
            self.tofino_object(&mut lines, object, &control.name)?;
        }
        self.locals(&mut lines, id);
        decls.iter().for_each(|decl| lines.line(decl));
        // What the tier below alone applies is not here.
        let tables: Vec<TableId> = self.names.mentions[id.index()].tables.iter().copied().collect();
        for action in self.p.actions.iter().map(|(a, _)| a) {
            let listed = |t: &TableId| self.p.tables[*t].actions.iter().any(|a| a.action == action);
            if tables.iter().any(listed) {
                self.action(&mut lines, action, &control.name);
            }
        }
        for table in tables {
            self.table(&mut lines, table, &control.name, &decls)?;
        }
        lines.gap();
        lines.open("apply");
        if !self.p.intrinsics.contains_key(halves::BYPASS) {
            lines.stmts(&[line("ig_tm_md.bypass_egress = 1;")]);
        }
        lines.stmts(&code);
        lines.close();
        lines.close();
        Ok(lines.out)
    }

    fn tofino_object(&self, lines: &mut Lines, id: ExternId, control: &str) -> Res<()> {
        let object = &self.p.externs[id];
        let name = &self.names.externs[id.index()];
        let unit = |unit: &CounterUnit| match unit {
            CounterUnit::Packets => "CounterType_t.PACKETS",
            CounterUnit::Bytes => "CounterType_t.BYTES",
            CounterUnit::Both => "CounterType_t.PACKETS_AND_BYTES",
        };
        let rates = |unit: &MeterUnit| match unit {
            MeterUnit::Packets => "MeterType_t.PACKETS",
            MeterUnit::Bytes => "MeterType_t.BYTES",
        };
        let ty = |ty: Type| crate::emit::expr::type_text(self.p, ty);
        let text = match &object.kind {
            ExternKind::Counter { size, unit: u, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                format!("Counter<bit<64>, bit<{}>>({size}, {})", self.index_width(id).unwrap_or(32), unit(u))
            }
            ExternKind::DirectCounter { unit: u } => format!("DirectCounter<bit<64>>({})", unit(u)),
            ExternKind::Hash { algorithm, output } => {
                let algorithm = hash_algorithm(algorithm);
                // A unit for each place: one hashes one list of fields.
                for n in 1..=self.hash_places(id) {
                    let number = if n == 1 { String::new() } else { format!("_{n}") };
                    lines.line(&format!("Hash<{}>(HashAlgorithm_t.{algorithm}) {name}{number};", ty(*output)));
                }
                return Ok(());
            }
            ExternKind::Random { min, .. } => format!("Random<{}>()", ty(min.ty)),
            ExternKind::ActionProfile { size } => format!("ActionProfile({size})"),
            ExternKind::Meter { size, unit, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                format!("Meter<bit<{}>>({size}, {})", self.index_width(id).unwrap_or(32), rates(unit))
            }
            ExternKind::DirectMeter { unit } => format!("DirectMeter({})", rates(unit)),
            ExternKind::Register { size, elem, initial, .. } => {
                let size = self.sizes.get(&object.preamble.name).unwrap_or(size);
                let elem = elem.first().copied().map(ty).unwrap_or_default();
                let first = initial.first().map(|c| format!(", {}", crate::emit::expr::number(&c.bits)));
                let index = self.index_width(id).unwrap_or(32);
                format!("Register<{elem}, bit<{index}>>({size}{})", first.unwrap_or_default())
            }
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                let algorithm = hash_algorithm(algorithm);
                lines.line(&format!("Hash<bit<{output_width}>>(HashAlgorithm_t.{algorithm}) {name}_hash;"));
                lines.line(&format!("ActionProfile({size}) {name}_members;"));
                let groups = self.p.tables.values().filter(|t| t.implementation == Some(id)).filter_map(|t| t.size);
                let groups = groups.max().unwrap_or(*size);
                let of = size.min(&MAX_GROUP);
                format!("ActionSelector({name}_members, {name}_hash, SelectorMode_t.FAIR, {of}, {groups})")
            }
            _ => return Ok(()),
        };
        let told = self.annotations(&object.preamble, control, name);
        told.iter().for_each(|a| lines.line(a));
        lines.line(&format!("{text} {name};"));
        Ok(())
    }

    fn hash_places(&self, id: ExternId) -> usize {
        self.p
            .insts()
            .filter(|i| matches!(&i.inst, Inst::Extern { object: Some(o), func: ExternFn::HashGet, .. } if *o == id))
            .count()
    }

    fn tofino_deparser(&mut self, id: ControlId, deparsed: &[Deparsed]) -> Res<String> {
        let control = &self.p.controls[id];
        let (hdr, meta) = self.both();
        let mut lines = Lines::default();
        let intrinsic = match control.kind {
            ControlKind::Deparser => "egress_intrinsic_metadata_for_deparser_t eg_dprsr_md",
            _ => "ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md",
        };
        let name = &control.name;
        lines.open(&format!(
            "control {name}(packet_out packet, inout headers_t {hdr}, in metadata_t {meta}, in {intrinsic})"
        ));
        let mut updates = Vec::new();
        for sum in deparsed {
            let name = self.names.fresh("checksum");
            lines.line(&format!("Checksum() {name};"));
            updates.push((name, sum.clone()));
        }
        let mut writer = Writer::new(self, control.kind, &control.body);
        let code = writer.control()?;
        let decls = std::mem::take(&mut writer.decls);
        let own = self.names.mentions[id.index()].headers.iter().any(|header| self.p.headers[*header].local);
        if own || !code.iter().all(|stmt| matches!(stmt, Stmt::Line(_))) {
            let locs = control.body.insts().filter(|data| !matches!(data.inst, Inst::Emit(_))).map(|data| data.loc);
            let what = "a deparser that decides or computes something: what is valid is emitted, and that is all";
            return self.unsupported(locs.max_by_key(|loc| loc.line).unwrap_or_default(), what);
        }
        decls.iter().for_each(|decl| lines.line(decl));
        lines.gap();
        lines.open("apply");
        for (name, sum) in updates {
            let over: Vec<String> = sum.over.iter().map(|v| self.var(*v)).collect();
            lines.open(&format!("if ({})", self.var(sum.wanted)));
            lines.line(&format!("{} = {name}.update({{", self.var(sum.field)));
            lines.line(&format!("    {}", over.join(", ")));
            lines.line("});");
            lines.close();
        }
        lines.stmts(&code);
        lines.close();
        lines.close();
        Ok(lines.out)
    }

    fn no_egress(&self) -> String {
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

/// Metadata that is asked for where a packet is on its way out early. The compiler may give its container to what is set later on the other
/// way, and then finds no order of both (p4c's tofino back-end: `mau/table_injected_deps.cpp`, "Live ranges overlap").
fn asked_on_the_way_out(p: &Pipeline, body: &Body) -> BTreeSet<VarId> {
    let order = reverse_postorder(body);
    let next = |b: Block| body.blocks[b].successors();
    let mut lookups: BTreeMap<Block, usize> = BTreeMap::new();
    for block in &order {
        let own = lookups.get(block).copied().unwrap_or(0);
        let more = usize::from(body.blocks[*block].applied().is_some());
        for b in next(*block) {
            let known = lookups.entry(b).or_insert(0);
            *known = (*known).max(own + more);
        }
    }
    // The end is where a packet comes that all lookups let pass.
    let most = lookups.values().max().copied().unwrap_or(0);
    let mut onward: BTreeSet<Block> = BTreeSet::new();
    for block in order.iter().rev() {
        let looks_up = body.blocks[*block].applied().is_some();
        let behind_all = lookups.get(block).copied().unwrap_or(0) == most;
        // A way out that all share says nothing about the ways there.
        let shared = body.blocks[*block].insts.is_empty() && next(*block).is_empty();
        if !shared && (looks_up || behind_all || next(*block).iter().any(|b| onward.contains(b))) {
            onward.insert(*block);
        }
    }
    // What is asked there may have been read before, and is written where it is asked.
    let mut values: Vec<Value> = Vec::new();
    for data in order.iter().filter(|b| !onward.contains(b)).map(|b| &body.blocks[*b]) {
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| values.push(v)));
        data.insts.iter().for_each(|i| values.extend(&i.results));
        data.term.iter().for_each(|t| t.term.for_each_use(|v| values.push(v)));
    }
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(value) = values.pop() {
        let Some(data) = body.definition(value).filter(|_| seen.insert(value)) else { continue };
        match data.inst {
            Inst::Load(var) if p.vars[var].kind == VarKind::Meta => _ = found.insert(var),
            _ => data.inst.for_each_use(|v| values.push(v)),
        }
    }
    found
}
