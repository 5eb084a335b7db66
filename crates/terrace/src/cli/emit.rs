//! `terrace emit`.

use super::failure::CommandError;
use super::program_args::{SourceArgs, switch_program};
use super::sizing::read_sizing;
use super::ui::{self, OutputSettings};
use asic::emit::{EmitTarget, ExternallyReadVars, GressUse, PASSES, emit, emit_with_gresses, observe_passes};
use asic::target::ChipTarget as Chip;
use asic::transform::{TableSizes, TransformedPipeline};
use clap::Args;
use ir::Pipeline;
use ir::passes::Pass;
use offload::partition::{
    ChipPartition, PartitionOptions, PipelinePartition, PlacedCutPoint, Resumption, partition_for_chip,
};
use offload::plan::{compressions, split_concatenated_keys};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Write a program as P4-16 for another architecture: for a switching ASIC (tna, t2na), or for
/// v1model and PNA.
///
/// Tables, actions and keys keep their control-plane names. Everything that the architecture cannot
/// express is reported with its source location. With `--lower-half`, packets that need it are sent
/// to the tier below.
#[derive(Debug, Args)]
pub struct EmitArgs {
    /// P4-16 program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Target architecture: tna (Tofino 1), t2na (Tofino 2), v1model or pna.
    #[arg(long, value_name = "ARCHITECTURE")]
    target: EmitTarget,
    /// Sizing file with the capacity of tables (and for a chip, counters) where it differs from the
    /// program's sizes (docs/reference/plan.md).
    #[arg(long, value_name = "FILE.toml")]
    sizes: Option<PathBuf>,
    /// Compress tables first, as `terrace plan --compress` does: auto searches for the cheapest
    /// combination on the architecture's chip; STEPS are applied in order. The controller must then
    /// write entries through the map of these steps (docs/reference/emit.md).
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// Seed of key digests, if there are any. Keep it secret: only the writer of entries may know
    /// it. Default: random.
    #[arg(long, value_name = "NUMBER")]
    digest_seed: Option<u64>,
    /// For a chip: place the code after the choice of the egress port into egress, and pass the
    /// values that it needs in a bridge header.
    #[arg(long)]
    use_egress: bool,
    /// For a chip: partition the program at operations that the chip cannot express. Packets that
    /// reach one are sent to the tier below with a bridge header. The lower half of the program is
    /// written to this file: as P4-16 for PNA if its name ends in `.p4`, else compiled.
    #[arg(long, value_name = "FILE")]
    lower_half: Option<PathBuf>,
    /// Port of the chip that is connected to the tier below.
    #[arg(long, value_name = "PORT", default_value_t = node::config::LOWER_PORT, requires = "lower_half")]
    lower_port: u32,
    /// Key of bridge headers. Both tiers must use the same number.
    #[arg(long, value_name = "NUMBER", default_value_t = node::config::TIERS_KEY, requires = "lower_half")]
    bridge_key: u32,
    /// For a chip: print the pipeline after a pass instead of the program. all: after each pass;
    /// `passes` lists the passes.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["lower_half", "strict"])]
    dump: Option<String>,
    /// Fail if any part of the program is left out.
    #[arg(long)]
    strict: bool,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

impl EmitArgs {
    /// Writes the program as P4 for the target. With `--lower-half` the statements that the target
    /// cannot express go into a second program; notes say which, and what is left out. With
    /// `--strict` a program with parts left out is refused.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let pipeline = switch_program(self.sources.pipeline(&self.file, ui)?, ui);
        let mut sizes = TableSizes::new();
        if let Some(path) = &self.sizes {
            let sizing = read_sizing(path, &pipeline)?;
            sizes.extend(sizing.sizes().map_err(CommandError::refused)?);
            sizes.extend(sizing.objects().map_err(CommandError::refused)?);
        }
        let (pipeline, sizes) = self.compressed(pipeline, sizes, ui)?;
        let gresses = if self.use_egress { GressUse::Both } else { GressUse::Ingress };
        if let Some(name) = &self.dump {
            return self.write_dump(&pass_dump(&pipeline, self.target, gresses, name)?, ui);
        }
        let ChipPartition { emitted, partition, unsupported } = match &self.lower_half {
            Some(_) => {
                let options = PartitionOptions { lower_port: self.lower_port, key: self.bridge_key };
                partition_for_chip(&pipeline, self.target, &sizes, gresses, options).map_err(CommandError::refused)?
            }
            None => ChipPartition {
                emitted: emit_with_gresses(&pipeline, self.target, &sizes, gresses).map_err(CommandError::refused)?,
                partition: None,
                unsupported: Vec::new(),
            },
        };
        if self.use_egress && emitted.bridge_bytes.is_none() {
            ui.note(
                "all of it is in ingress: nothing that egress could do follows the decision about the packet's port",
            );
        }
        let done_below: Vec<String> = unsupported.iter().map(ToString::to_string).collect();
        let stop_lines = cut_point_lines(&pipeline, partition.as_ref());
        if !ui.json {
            done_below.iter().for_each(|what| ui.note(format!("done below: {what}")));
            stop_lines.iter().for_each(|stop| ui.note(format!("packets leave at {stop}")));
            for what in &emitted.left_out {
                ui.note(format!("left out: {what}"));
            }
            if self.lower_half.is_some() && partition.is_none() {
                ui.note("nothing is done below: the architecture can express everything that is not left out");
            }
        }
        if self.strict && !emitted.left_out.is_empty() {
            let first = &emitted.left_out[0];
            let text = format!(
                "{} parts of the program cannot be expressed in {}; the first: {first}",
                emitted.left_out.len(),
                self.target.name()
            );
            return Err(CommandError::refused(text));
        }
        let left_out: Vec<String> = emitted.left_out.iter().map(ToString::to_string).collect();
        if let (Some(path), Some(partition)) = (&self.lower_half, &partition) {
            write(path, &self.lower_half_text(path, partition)?)?;
        }
        let mut document = serde_json::json!({ "left_out": left_out, "done_below": done_below, "stops": stop_lines });
        if let Some(path) = self.lower_half.as_ref().filter(|_| partition.is_some()) {
            document["lower_half"] = serde_json::json!(path);
        }
        if let Some(path) = &self.output {
            write(path, &emitted.text)?;
            document["written"] = serde_json::json!(path);
            document["bytes"] = emitted.text.len().into();
            return ui.result(&document, String::new);
        }
        if ui.json {
            document["text"] = emitted.text.into();
            return ui.result(&document, String::new);
        }
        ui::print_line(&emitted.text)
    }

    fn write_dump(&self, text: &str, ui: OutputSettings) -> Result<(), CommandError> {
        if let Some(path) = &self.output {
            write(path, text)?;
            return ui.result(&serde_json::json!({ "written": path, "bytes": text.len() }), String::new);
        }
        match ui.json {
            true => ui.result(&serde_json::json!({ "dump": text }), String::new),
            false => ui::print_line(text),
        }
    }

    /// Returns the program with compressed tables if requested.
    /// Prints the compression steps. The sizes are those of the compressed tables.
    fn compressed(
        &self,
        pipeline: Arc<Pipeline>,
        sizes: TableSizes,
        ui: OutputSettings,
    ) -> Result<(Arc<Pipeline>, TableSizes), CommandError> {
        if self.compress == "none" {
            return Ok((pipeline, sizes));
        }
        let chip = Chip::shipped(self.target.chip().unwrap_or("tofino1"))
            .ok_or_else(|| CommandError::Usage(format!("there is no chip for {}", self.target.name())))?;
        let seed = self.digest_seed.unwrap_or_else(|| fastrand::u64(..));
        let steps = compressions(&self.compress, &pipeline, &sizes, &chip, seed).map_err(CommandError::Usage)?;
        let mut compressed = TransformedPipeline::unchanged(pipeline, sizes);
        for step in &steps {
            let refused = |error| CommandError::refused(format!("{}: {error}", step.name));
            compressed = compressed.then(&step.rewrite).map_err(refused)?;
            if !ui.json {
                ui.note(&step.name);
            }
        }
        if steps.iter().any(|step| step.name.starts_with("digest")) && self.digest_seed.is_none() {
            ui.note(format!("digests start from {seed}: --digest-seed {seed} gives the same program again"));
        }
        if self.target.is_tofino() {
            compressed = split_concatenated_keys(compressed).map_err(CommandError::refused)?;
        }
        Ok((compressed.pipeline, compressed.sizes))
    }

    /// Returns the lower half, in the format of the file's name extension.
    fn lower_half_text(&self, path: &Path, cut: &PipelinePartition) -> Result<String, CommandError> {
        if path.extension().is_some_and(|ending| ending == "p4") {
            let written = emit(&cut.lower, EmitTarget::Pna, &TableSizes::new()).map_err(CommandError::refused)?;
            return Ok(written.text);
        }
        Ok(ir::text::print(&cut.lower))
    }
}

/// Returns the pipeline after a pass, or after each pass under the pass's name, or the list of
/// passes.
fn pass_dump(pipeline: &Pipeline, target: EmitTarget, halves: GressUse, name: &str) -> Result<String, CommandError> {
    if name == "passes" {
        return Ok(PASSES.iter().map(|pass| format!("{:<24}{}\n", pass.name, pass.reason)).collect());
    }
    if name != "all" && !PASSES.iter().any(|pass| pass.name == name) {
        let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        return Err(CommandError::Usage(format!("there is no pass `{name}`; the passes are {}", names.join(", "))));
    }
    let mut text = String::new();
    let observe = |pass: &Pass<ExternallyReadVars>, pipeline: &Pipeline| match name {
        "all" => text.push_str(&format!("// after {}\n{}\n", pass.name, ir::text::print(pipeline))),
        _ if pass.name == name => text = ir::text::print(pipeline),
        _ => {}
    };
    observe_passes(pipeline, target, halves, observe).map_err(CommandError::refused)?;
    Ok(text)
}

/// Lists the cut points, each with its reason.
fn cut_point_lines(pipeline: &Pipeline, cut: Option<&PipelinePartition>) -> Vec<String> {
    let stop = |point: &PlacedCutPoint| {
        let file = pipeline.file_of(point.loc);
        let place =
            file.map_or("the beginning".to_owned(), |file| format!("{file}:{}:{}", point.loc.line, point.loc.column));
        match point.resumption {
            Resumption::Continue => format!("{place}: {} ({} bits go along)", point.reason, point.carried_bits),
            Resumption::Restart => format!("{place}: {} (as they arrived)", point.reason),
        }
    };
    cut.into_iter().flat_map(|cut| &cut.cut_points).map(stop).collect()
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let failed = |error| CommandError::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
