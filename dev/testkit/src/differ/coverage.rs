//! Coverage of the comparison. Without it, a run without mismatches would prove nothing.

use super::subject::EmittedPacket;
use ir::{ExternArg, ExternKind, Inst, Pipeline, Terminator};
use packet::{PacketOrigin, Verdict};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Counts of all compared objects.
#[derive(Clone, Debug, Default)]
pub struct TestCoverage {
    /// Programs that ran.
    pub programs: u64,
    /// Programs that the front-end refused.
    pub refused: u64,
    /// Programs that the engine under test refused.
    pub unloaded: BTreeMap<String, u64>,
    /// Received packets.
    pub packets: u64,
    /// Packets sent on ports.
    pub forwarded: u64,
    /// Packets to the CPU.
    pub to_cpu: u64,
    /// Copies: clones, mirrored and replicated packets.
    pub copies: u64,
    /// Drops, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Number of batches.
    pub batches: u64,
    /// Accepted write batches.
    pub writes: u64,
    /// Refused write batches.
    pub refused_writes: u64,
    /// Table hits of the packets compared in detail.
    pub hits: u64,
    /// Table misses of the packets compared in detail.
    pub misses: u64,
    /// Digest messages and idle entries.
    pub messages: u64,
    /// Number of state comparisons.
    pub states: u64,
    /// Packets that fell back to the interpreter, by reason.
    pub handed: BTreeMap<String, u64>,
    /// Packets that the vector path processed, and the number of those that diverged to scalar
    /// code.
    pub vector_packet_counts: [u64; 2],
    /// Number of programs with each feature.
    pub features: BTreeMap<String, u64>,
}

impl TestCoverage {
    /// Counts the verdicts of a batch.
    pub fn count_emitted(&mut self, emitted: &[EmittedPacket]) {
        for one in emitted {
            match one.verdict {
                Verdict::Forward { .. } => self.forwarded += 1,
                Verdict::ToCpu { .. } => self.to_cpu += 1,
                Verdict::Drop(reason) => {
                    let name = if matches!(reason, packet::DropReason::Program(_)) {
                        "program's own".to_owned()
                    } else {
                        reason.to_string()
                    };
                    *self.drops.entry(name).or_default() += 1;
                }
            }
            if one.origin != PacketOrigin::Received {
                self.copies += 1;
            }
        }
    }

    /// Returns the number of packets that ran as native code.
    pub fn native(&self) -> u64 {
        self.packets.saturating_sub(self.handed.values().sum())
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &TestCoverage) {
        for (sum, count) in [
            (&mut self.programs, other.programs),
            (&mut self.refused, other.refused),
            (&mut self.packets, other.packets),
            (&mut self.forwarded, other.forwarded),
            (&mut self.to_cpu, other.to_cpu),
            (&mut self.copies, other.copies),
            (&mut self.batches, other.batches),
            (&mut self.writes, other.writes),
            (&mut self.refused_writes, other.refused_writes),
            (&mut self.hits, other.hits),
            (&mut self.misses, other.misses),
            (&mut self.messages, other.messages),
            (&mut self.states, other.states),
        ] {
            *sum += count;
        }
        for (sum, count) in self.vector_packet_counts.iter_mut().zip(other.vector_packet_counts) {
            *sum += count;
        }
        for (sums, counts) in [
            (&mut self.unloaded, &other.unloaded),
            (&mut self.drops, &other.drops),
            (&mut self.handed, &other.handed),
            (&mut self.features, &other.features),
        ] {
            for (name, count) in counts {
                *sums.entry(name.clone()).or_default() += count;
            }
        }
    }

    /// Counts each feature of a program once.
    pub fn count_program(&mut self, pipeline: &Pipeline) {
        self.programs += 1;
        for feature in features(pipeline) {
            *self.features.entry(feature).or_default() += 1;
        }
    }
}

/// Returns the features that a pipeline uses, by name: operators by width, instructions, extern
/// functions, match kinds.
pub fn features(pipeline: &Pipeline) -> Vec<String> {
    let mut labels = vec![format!("arch {:?}", pipeline.arch)];
    for control in pipeline.controls.values() {
        let body = &control.body;
        for block in body.blocks.values() {
            labels.extend(block.insts.iter().map(|inst| instruction_label(body, &inst.inst)));
            if let Some(Terminator::Switch { .. }) = block.term.as_ref().map(|term| &term.term) {
                labels.push("switch".to_owned());
            }
            if let Some(Terminator::Exit) = block.term.as_ref().map(|term| &term.term) {
                labels.push("exit".to_owned());
            }
        }
    }
    for table in pipeline.tables.values() {
        let mut kinds: Vec<String> = table.keys.iter().map(|key| format!("{:?}", key.kind)).collect();
        kinds.sort();
        kinds.dedup();
        labels.push(format!("table of {}", if kinds.is_empty() { "no keys".to_owned() } else { kinds.join("+") }));
        let properties = [
            (table.direct_counter.is_some(), "direct counter"),
            (table.direct_meter.is_some(), "direct meter"),
            (table.add_on_miss, "add on miss"),
            (table.idle_timeout, "idle timeout"),
            (!table.entries.is_empty(), "own entries"),
            (table.const_entries, "const entries"),
            (table.implementation.is_some(), "action profile"),
            (table.const_default, "const default"),
            (table.keys.iter().any(|key| key.ty.width() > 64), "key wider than 64"),
        ];
        labels.extend(properties.iter().filter(|(has, _)| *has).map(|(_, name)| format!("table: {name}")));
    }
    for object in pipeline.externs.values() {
        if let ExternKind::Hash { algorithm, .. }
        | ExternKind::Checksum { algorithm, .. }
        | ExternKind::ActionSelector { algorithm, .. } = object.kind
        {
            labels.push(format!("algorithm {algorithm:?}"));
        }
    }
    let kinds_of_members = [(pipeline.stacks.is_empty(), "stack"), (pipeline.unions.is_empty(), "union")];
    labels.extend(kinds_of_members.iter().filter(|(is_empty, _)| !is_empty).map(|(_, name)| (*name).to_owned()));
    labels.sort();
    labels.dedup();
    labels
}

/// Returns a label for the class of an instruction: operation, signedness, and whether it is wider
/// than one or two machine words; for externs the function and its algorithm.
fn instruction_label(body: &ir::Body, inst: &Inst) -> String {
    let ty = |value: &ir::Value| body.values.get(*value).copied().unwrap_or(ir::Type::Bool);
    let width_label = |value: &ir::Value| match ty(value) {
        ty if ty.width() > 128 => " over 128",
        ty if ty.width() > 64 => " over 64",
        _ => "",
    };
    let sign_label = |value: &ir::Value| if ty(value).is_signed() { " signed" } else { "" };
    match inst {
        Inst::Unary(op, a) => format!("{op:?}{}{}", sign_label(a), width_label(a)),
        Inst::Binary(op, a, _) => format!("{op:?}{}{}", sign_label(a), width_label(a)),
        Inst::Cast(to, from) => {
            let widens = to.width() > ty(from).width();
            let (direction, sign_label) = (if widens { "widening" } else { "narrowing" }, sign_label(from));
            format!("Cast {direction}{sign_label}{}", if to.width() > 64 { " over 64" } else { width_label(from) })
        }
        Inst::Slice { value, .. } => format!("Slice{}", width_label(value)),
        Inst::Concat(a, b) => {
            let width = ty(a).width() + ty(b).width();
            format!("Concat{}", if width > 64 { " over 64" } else { "" })
        }
        Inst::Lookahead(ty) => format!("Lookahead{}", if ty.width() > 64 { " over 64" } else { "" }),
        Inst::Extern { func, args, .. } => {
            let algorithm = args.iter().find_map(|arg| match arg {
                ExternArg::Str(text) if *func != ir::ExternFn::LogMsg && text.len() < 16 => Some(format!(" {text}")),
                _ => None,
            });
            let is_pair = *func == ir::ExternFn::AddEntry && args.len() > ir::ExternFn::TWIN_KEY;
            format!("{}{}{}", func.name(), if is_pair { " pair" } else { "" }, algorithm.unwrap_or_default())
        }
        other => {
            let text = format!("{other:?}");
            text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
        }
    }
}

impl Display for TestCoverage {
    /// Writes the counts in a few lines, and the reasons of drops and refusals.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let drops: u64 = self.drops.values().sum();
        writeln!(
            f,
            "{} programs ({} refused), {} packets in {} batches: {} forwarded, {} to the CPU, {drops} dropped, {} copies",
            self.programs, self.refused, self.packets, self.batches, self.forwarded, self.to_cpu, self.copies
        )?;
        writeln!(
            f,
            "{} writes ({} refused), {} hits and {} misses looked at, {} messages, {} states compared, {} packets native",
            self.writes,
            self.refused_writes,
            self.hits,
            self.misses,
            self.messages,
            self.states,
            self.native()
        )?;
        for (name, map) in [("dropped", &self.drops), ("handed", &self.handed), ("not loaded", &self.unloaded)] {
            if !map.is_empty() {
                writeln!(f, "{name}: {map:?}")?;
            }
        }
        let [vectorised, diverged] = self.vector_packet_counts;
        writeln!(
            f,
            "{vectorised} taken through stages eight at a time, of which {diverged} were left to code for one"
        )?;
        write!(f, "{} features", self.features.len())
    }
}
