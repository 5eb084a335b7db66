//! Compares the memory use of random single tables, each in its own program, in the chip's compiler
//! and in the model (`asic::memory`). `switch/asic/tests/calibration.csv` has tables of few shapes;
//! this task covers all others.

use super::report::ChipResources;
use super::{Chip, CompilerArgs};
use anyhow::{Context, Result};
use asic::demand::{ActionDemand, AttachedKind, AttachedState, KeyDemand, MemoryMatchKind, TableDemand};
use asic::{memory, target::ChipTarget};
use clap::Args;
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;

/// Compare the model of the chip's memories with its open compiler, for random single tables.
#[derive(Debug, Args)]
pub struct TablesArgs {
    #[command(flatten)]
    compiler: CompilerArgs,
    /// Number of tables.
    #[arg(long, default_value_t = 40)]
    count: u64,
    /// Seed of the first table, incremented for each further one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use the shapes of the calibration instead (its keys, sizes and widths of data), chosen at
    /// random.
    #[arg(long)]
    grid: bool,
    /// Exit with 1 below the targets of the calibration.
    #[arg(long)]
    check: bool,
}

/// Match kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableMatch {
    Exact,
    Ternary,
    /// All keys except the last are exact, and the last is a prefix.
    Alpm(u64),
}

/// A random table.
#[derive(Clone, Debug)]
struct RandomTable {
    kind: TableMatch,
    keys: Vec<u32>,
    entries: u64,
    /// Widths of the action data of an entry, in bits.
    data: Vec<u32>,
    counter: bool,
}

impl RandomTable {
    /// Draws a table with any key elements and size that fit on the chip.
    fn random(rng: &mut Rng) -> RandomTable {
        let kind = match rng.u8(..10) {
            0..5 => TableMatch::Exact,
            5..8 => TableMatch::Ternary,
            _ => TableMatch::Alpm(1024 << rng.u32(..3)),
        };
        let widths: &[u32] = &[8, 9, 12, 16, 20, 24, 32, 48, 64, 128];
        let mut keys: Vec<u32> = (0..rng.usize(1..6)).map(|_| widths[rng.usize(..widths.len())]).collect();
        // Limits of a crossbar: 128 bytes for exact keys, 66 for others.
        let max_key_bits = if kind == TableMatch::Exact { 512 } else { 320 };
        while keys.iter().sum::<u32>() > max_key_bits {
            keys.pop();
        }
        if let TableMatch::Alpm(_) = kind {
            keys.truncate(2);
            keys.push(if rng.bool() { 32 } else { 128 });
        }
        let (min_log, log_range) = if kind == TableMatch::Exact { (6, 13) } else { (6, 9) };
        let entries = ((1u64 << (min_log + rng.u32(..log_range))) as f64 * (1.0 + rng.f64())) as u64;
        let entries = if let TableMatch::Alpm(partitions) = kind { entries.max(8 * partitions) } else { entries };
        let data = (0..rng.usize(..4)).map(|_| [8, 16, 24, 32, 48, 64, 128][rng.usize(..7)]).collect();
        RandomTable { kind, keys, entries, data, counter: rng.u8(..5) == 0 }
    }

    /// Draws one of the calibration's shapes.
    fn random_of_grid(rng: &mut Rng) -> RandomTable {
        let key_shapes: &[&[u32]] = &[
            &[32],
            &[24, 32],
            &[24, 128],
            &[24, 8, 32],
            &[48],
            &[16],
            &[32, 32, 8, 16, 16],
            &[128, 128, 8, 16, 16],
            &[24, 32, 32, 8, 16, 16],
            &[12, 12, 32],
        ];
        let kind = match rng.u8(..10) {
            0..5 => TableMatch::Exact,
            5..8 => TableMatch::Ternary,
            _ => TableMatch::Alpm(1024 << rng.u32(..4)),
        };
        let keys = match kind {
            TableMatch::Alpm(_) => [&[32][..], &[24, 32], &[24, 128]][rng.usize(..3)],
            _ => key_shapes[rng.usize(..key_shapes.len())],
        };
        let sizes: &[u64] = match kind {
            TableMatch::Exact => &[1024, 4096, 16384, 65536, 131_072, 262_144, 524_288],
            TableMatch::Ternary => &[512, 1024, 2048, 4096, 8192, 16384, 32768],
            TableMatch::Alpm(_) => &[16384, 32768, 65536, 131_072, 262_144],
        };
        let data = [0, 16, 32, 64, 128][rng.usize(..5)];
        let data = (0..data).step_by(32).map(|first_bit| 32.min(data - first_bit)).collect();
        RandomTable {
            kind,
            keys: keys.to_vec(),
            entries: sizes[rng.usize(..sizes.len())],
            data,
            counter: rng.u8(..4) == 0,
        }
    }

    fn name(&self) -> String {
        let list = |widths: &[u32]| widths.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        let kind = match self.kind {
            TableMatch::Exact => "exact".to_owned(),
            TableMatch::Ternary => "ternary".to_owned(),
            TableMatch::Alpm(partitions) => format!("alpm of {partitions}"),
        };
        let data = if self.data.is_empty() { "no data".to_owned() } else { format!("data {}", list(&self.data)) };
        let counter = if self.counter { ", a counter" } else { "" };
        format!("{kind} {}, {} entries, {data}{counter}", list(&self.keys), self.entries)
    }

    /// Returns the table in the form of the model.
    fn table(&self) -> TableDemand {
        let last = self.keys.len() - 1;
        let is_exact = |index| self.kind == TableMatch::Exact || (self.kind != TableMatch::Ternary && index != last);
        let key = |(index, bits): (usize, &u32)| KeyDemand {
            name: format!("hdr.k.f{index}"),
            bits: *bits,
            exact: is_exact(index),
            range: false,
        };
        let action = |name: &str, params: &[u32]| ActionDemand {
            name: name.into(),
            params: params.to_vec(),
            default_only: false,
        };
        let counter = AttachedState { name: "c".into(), kind: AttachedKind::Counter, size: None, bits: 128 };
        TableDemand {
            name: "t".into(),
            id: None,
            kind: match self.kind {
                TableMatch::Exact => MemoryMatchKind::Exact,
                TableMatch::Ternary => MemoryMatchKind::Ternary,
                TableMatch::Alpm(partitions) => MemoryMatchKind::Alpm { partitions },
            },
            keys: self.keys.iter().enumerate().map(key).collect(),
            entries: self.entries,
            actions: vec![action("set", &self.data), action("nothing", &[])],
            attached: if self.counter { vec![counter] } else { Vec::new() },
        }
    }

    /// Returns a program with the table. It sends all packets to one port, and writes the action
    /// data to fields of a header.
    fn program_text(&self) -> String {
        let mut text = String::from("#include <core.p4>\n#include <tna.p4>\n\n");
        // Writing to a string does not fail.
        let mut push_line = |text_line: &str| _ = writeln!(text, "{text_line}");
        let header_text = |name: &str, field: &str, widths: &[u32]| {
            let mut fields: String =
                widths.iter().enumerate().map(|(n, bits)| format!("bit<{bits}> {field}{n}; ")).collect();
            let partial_bits = widths.iter().sum::<u32>() % 8;
            if partial_bits > 0 || widths.is_empty() {
                _ = write!(fields, "bit<{}> pad; ", 8 - partial_bits);
            }
            format!("header {name}_h {{ {fields}}}")
        };
        push_line(&header_text("k", "f", &self.keys));
        push_line(&header_text("d", "d", &self.data));
        push_line("struct headers_t { k_h k; d_h d; }\nstruct metadata_t { }\nstruct no_headers_t { }");
        push_line(
            "parser ip(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {",
        );
        push_line(
            "    state start { packet.extract(ig_intr_md); packet.advance(PORT_METADATA_SIZE); packet.extract(hdr.k); packet.extract(hdr.d); transition accept; }\n}",
        );
        push_line(
            "control ig(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md, in ingress_intrinsic_metadata_from_parser_t ig_prsr_md, inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md, inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {",
        );
        let count = if self.counter { "c.count(); " } else { "" };
        if self.counter {
            push_line("    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) c;");
        }
        let params: Vec<String> = self.data.iter().enumerate().map(|(n, bits)| format!("bit<{bits}> p{n}")).collect();
        let sets: String = (0..self.data.len()).map(|n| format!("hdr.d.d{n} = p{n}; ")).collect();
        push_line(&format!("    action set({}) {{ {count}{sets}}}", params.join(", ")));
        push_line(&format!("    action nothing() {{ {count}}}"));
        if let TableMatch::Alpm(partitions) = self.kind {
            push_line(&format!("    Alpm(number_partitions = {partitions}, subtrees_per_partition = 2) parts;"));
        }
        let last = self.keys.len() - 1;
        let kind = |n: usize| match self.kind {
            TableMatch::Exact => "exact",
            TableMatch::Ternary => "ternary",
            TableMatch::Alpm(_) if n == last => "lpm",
            TableMatch::Alpm(_) => "exact",
        };
        let keys: String = (0..self.keys.len()).map(|n| format!("hdr.k.f{n}: {}; ", kind(n))).collect();
        push_line(&format!(
            "    table t {{\n        key = {{ {keys}}}\n        actions = {{ set; nothing; }}\n        size = {};",
            self.entries
        ));
        push_line("        default_action = nothing();");
        if self.counter {
            push_line("        counters = c;");
        }
        if let TableMatch::Alpm(_) = self.kind {
            push_line("        alpm = parts;");
        }
        push_line("    }\n    apply { ig_tm_md.ucast_egress_port = 1; ig_tm_md.bypass_egress = 1; t.apply(); }\n}");
        push_line(
            "control id(packet_out packet, inout headers_t hdr, in metadata_t meta, in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) { apply { packet.emit(hdr); } }",
        );
        push_line(
            "parser ep(packet_in packet, out no_headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) { state start { packet.extract(eg_intr_md); transition accept; } }",
        );
        push_line(
            "control eg(inout no_headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md, in egress_intrinsic_metadata_from_parser_t eg_prsr_md, inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md, inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) { apply { } }",
        );
        push_line(
            "control ed(packet_out packet, inout no_headers_t hdr, in metadata_t meta, in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) { apply { } }",
        );
        push_line("Pipeline(ip(), ig(), id(), ep(), eg(), ed()) pipe;\nSwitch(pipe) main;");
        text
    }
}

/// Results of both for a table.
struct Row {
    seed: u64,
    spec: RandomTable,
    compiler: Result<ChipResources, String>,
    model: Result<ChipResources, String>,
}

impl TablesArgs {
    /// Runs the task. Returns false if a target was missed with `--check`.
    ///
    /// # Errors
    /// If the compiler is missing or cannot be started.
    pub fn run(self) -> Result<bool> {
        let compiler = self.compiler.compiler()?;
        let (temporary, dir) = self.compiler.output_folder();
        let target = ChipTarget::shipped("tofino1").context("the chip is shipped")?;
        let style = ProgressStyle::with_template("{pos}/{len} {wide_msg} {elapsed}")?;
        let progress = ProgressBar::new(self.count).with_style(style);
        let mut rows = Vec::new();
        for seed in self.seed..self.seed + self.count {
            let mut rng = Rng::with_seed(seed);
            let spec = if self.grid { RandomTable::random_of_grid(&mut rng) } else { RandomTable::random(&mut rng) };
            progress.set_message(spec.name());
            let dir = dir.join(format!("table-{seed}"));
            std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
            let text = dir.join("table.p4");
            std::fs::write(&text, spec.program_text()).with_context(|| format!("writing {}", text.display()))?;
            let compiler = compiler.compile(Chip::Tofino1, &text, &dir)?;
            let model = model_resources(&target, &spec.table());
            rows.push(Row { seed, spec, compiler, model });
            progress.inc(1);
        }
        progress.finish_and_clear();
        drop(temporary);
        let (text, targets_met) = table(&rows);
        print!("{text}");
        Ok(targets_met || !self.check)
    }
}

/// Computes the resources of a table by the model.
fn model_resources(target: &ChipTarget, table: &TableDemand) -> Result<ChipResources, String> {
    let parts = memory::allocate_alone(target, table).map_err(|error| error.to_string())?;
    let sum = |of: fn(&asic::target::StageResources) -> u32| parts.iter().map(|part| u64::from(of(&part.usage))).sum();
    Ok(ChipResources { stages: parts.len() as u64, sram: sum(|usage| usage.sram), tcam: sum(|usage| usage.tcam) })
}

/// Renders the rows as Markdown with the number of equal results, and returns whether the targets
/// of the calibration are reached.
fn table(rows: &[Row]) -> (String, bool) {
    let mut text = String::from(
        "| seed | table | compiler: stages | SRAM | TCAM | model: stages | SRAM | TCAM | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let cells = |used: &Result<ChipResources, String>| match used {
        Ok(used) => format!("{} | {} | {}", used.stages, used.sram, used.tcam),
        Err(_) => "- | - | -".to_owned(),
    };
    for row in rows {
        let note = match (&row.compiler, &row.model) {
            (Ok(compiler), Ok(model)) if compiler == model => String::new(),
            (Ok(_), Ok(_)) => "differs".to_owned(),
            (Err(reason), _) | (_, Err(reason)) => reason.replace('|', "\\|"),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {note} |",
            row.seed,
            row.spec.name(),
            cells(&row.compiler),
            cells(&row.model)
        );
    }
    let pairs: Vec<(ChipResources, ChipResources)> =
        rows.iter().filter_map(|r| Some((r.compiler.clone().ok()?, r.model.clone().ok()?))).collect();
    let taken = rows.iter().filter(|row| row.compiler.is_ok()).count();
    let is_sram_within = |(theirs, ours): &&(ChipResources, ChipResources), percent: f64, blocks: u64| {
        let difference = theirs.sram.abs_diff(ours.sram);
        difference <= blocks || difference as f64 <= theirs.sram as f64 * percent / 100.0
    };
    let does_fit =
        |used: &Result<ChipResources, String>| used.as_ref().is_ok_and(|used| used.stages <= Chip::Tofino1.stages());
    let same_verdict = rows.iter().filter(|row| does_fit(&row.compiler) == does_fit(&row.model)).count();
    let count = |f: &dyn Fn(&&(ChipResources, ChipResources)) -> bool| pairs.iter().filter(f).count();
    let targets = [
        ("TCAM blocks equal", count(&|(t, o)| t.tcam == o.tcam), taken, 97.0),
        ("SRAM blocks within 5 % or 2 blocks", count(&|pair| is_sram_within(pair, 5.0, 2)), taken, 90.0),
        ("SRAM blocks within 15 %", count(&|pair| is_sram_within(pair, 15.0, 0)), taken, 100.0),
        ("stages equal", count(&|(t, o)| t.stages == o.stages), taken, 85.0),
        ("stages within one", count(&|(t, o)| t.stages.abs_diff(o.stages) <= 1), taken, 98.0),
        ("fits or does not fit", same_verdict, rows.len(), 98.0),
    ];
    text.push('\n');
    let mut is_met = true;
    for (name, count, total, min_percent) in targets {
        let share = 100.0 * count as f64 / total.max(1) as f64;
        is_met &= share >= min_percent;
        let _ = writeln!(text, "{name:36} {count:3} of {total:3} = {share:5.1} % (at least {min_percent:.0} %)");
    }
    (text, is_met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_their_programs_have_them() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            for spec in [RandomTable::random(&mut rng), RandomTable::random_of_grid(&mut rng)] {
                let (text, table) = (spec.program_text(), spec.table());
                let size = format!("size = {};", table.entries);
                assert!(text.contains(&size) && text.matches("hdr.k.f").count() == table.keys.len(), "{text}");
                assert_eq!(text.matches("hdr.d.d").count(), table.actions[0].params.len(), "{text}");
                assert_eq!(text.contains("counters = c;"), !table.attached.is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn bars_are_counted() {
        let spec = RandomTable::random_of_grid(&mut Rng::with_seed(1));
        let used = |sram| Ok(ChipResources { stages: 1, sram, tcam: 0 });
        let row = |compiler, model| Row { seed: 1, spec: spec.clone(), compiler, model };
        assert!(table(&[row(used(10), used(10))]).1);
        let (text, met) = table(&[row(used(10), used(20)), row(used(10), used(10)), row(Err("no".into()), used(10))]);
        assert!(
            !met && text.contains("SRAM blocks within 5 % or 2 blocks     1 of   2") && text.contains("| no |"),
            "{text}"
        );
    }
}
