//! `terrace emit`.

use super::failure::Failure;
use super::program_args::SourceArgs;
use super::sizing::sizing;
use super::ui::{self, Ui};
use asic::emit::{Asked, Halves, PASSES, Target, emit, emit_over, observe_passes};
use asic::rewrite::{Rewritten, Sizes};
use asic::target::Target as Chip;
use clap::Args;
use ir::Pipeline;
use ir::passes::Pass;
use offload::cut::{Cut, Divided, Options, Point, divide};
use offload::plan::{compressions, for_a_chip};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Write a program out again as P4-16 for an architecture: for a switching ASIC (tna, t2na), or for v1model and PNA.
///
/// Tables, actions and keys keep their control-plane names. What the architecture cannot express is named, with its place in the program; with `--below`,
/// packets that need it leave for the tier below.
#[derive(Debug, Args)]
pub struct EmitArgs {
    /// The program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The architecture: tna (Tofino 1), t2na (Tofino 2), v1model or pna.
    #[arg(long, value_name = "ARCHITECTURE")]
    target: Target,
    /// How many entries tables (and for a chip, counters) hold, where that is not what the program says: a sizing file (docs/plan.md).
    #[arg(long, value_name = "FILE.toml")]
    sizes: Option<PathBuf>,
    /// Make tables smaller first, as `terrace plan --compress` does: auto looks for the cheapest combination on the architecture's chip; or steps in their
    /// order. Whoever writes entries then writes them through the steps' map (docs/emit.md).
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// What digests start from, if there are any: a number that whoever writes entries knows and tells nobody; at random unless given.
    #[arg(long, value_name = "NUMBER")]
    digest_seed: Option<u64>,
    /// For a chip: put what follows the decision about a packet's port into egress, with a bridge header for what it needs.
    #[arg(long)]
    egress: bool,
    /// For a chip: cut the program where the chip has no form for what it does. Packets that come there leave with a bridge header for the tier below, whose
    /// part is written to this file: P4-16 for PNA if its name ends in `.p4`, or else a compiled program.
    #[arg(long, value_name = "FILE")]
    below: Option<PathBuf>,
    /// The chip's port that leads to the tier below.
    #[arg(long, value_name = "PORT", default_value_t = node::config::DOWN_PORT, requires = "below")]
    down_port: u32,
    /// The key in bridge headers: a number that both tiers know.
    #[arg(long, value_name = "NUMBER", default_value_t = node::config::TIERS_KEY, requires = "below")]
    bridge_key: u32,
    /// For a chip: print the pipeline after a pass instead of the program. all: after each; `passes` lists them.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["below", "strict"])]
    dump: Option<String>,
    /// Fail if something of the program is left out.
    #[arg(long)]
    strict: bool,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

impl EmitArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let pipeline = self.sources.pipeline(&self.file, ui)?;
        let mut sizes = Sizes::new();
        if let Some(path) = &self.sizes {
            let sizing = sizing(path, &pipeline)?;
            sizes.extend(sizing.sizes().map_err(Failure::refused)?);
            sizes.extend(sizing.objects().map_err(Failure::refused)?);
        }
        let (pipeline, sizes) = self.compressed(pipeline, sizes, ui)?;
        let halves = if self.egress { Halves::Both } else { Halves::Ingress };
        if let Some(name) = &self.dump {
            return self.write_dump(&dump(&pipeline, self.target, halves, name)?, ui);
        }
        let Divided { emitted, cut, without_form } = match &self.below {
            Some(_) => {
                let options = Options { down_port: self.down_port, key: self.bridge_key };
                divide(&pipeline, self.target, &sizes, halves, options).map_err(Failure::refused)?
            }
            None => Divided {
                emitted: emit_over(&pipeline, self.target, &sizes, halves).map_err(Failure::refused)?,
                cut: None,
                without_form: Vec::new(),
            },
        };
        if self.egress && emitted.bridge_bytes.is_none() {
            ui.note(
                "all of it is in ingress: nothing that egress could do follows the decision about the packet's port",
            );
        }
        let below: Vec<String> = without_form.iter().map(ToString::to_string).collect();
        let stops = stops(&pipeline, cut.as_ref());
        if !ui.json {
            below.iter().for_each(|what| ui.note(format!("done below: {what}")));
            stops.iter().for_each(|stop| ui.note(format!("packets leave at {stop}")));
            for what in &emitted.left_out {
                ui.note(format!("left out: {what}"));
            }
            if self.below.is_some() && cut.is_none() {
                ui.note("nothing is done below: what is not left out has a form");
            }
        }
        if self.strict && !emitted.left_out.is_empty() {
            let first = &emitted.left_out[0];
            let text = format!(
                "{} things have no form for {}; the first: {first}",
                emitted.left_out.len(),
                self.target.name()
            );
            return Err(Failure::refused(text));
        }
        let left_out: Vec<String> = emitted.left_out.iter().map(ToString::to_string).collect();
        if let (Some(path), Some(cut)) = (&self.below, &cut) {
            write(path, &self.lower(path, cut)?)?;
        }
        let mut document = serde_json::json!({ "left_out": left_out, "done_below": below, "stops": stops });
        if let Some(path) = self.below.as_ref().filter(|_| cut.is_some()) {
            document["below"] = serde_json::json!(path);
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
        ui::print(&emitted.text)
    }

    fn write_dump(&self, text: &str, ui: Ui) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            write(path, text)?;
            return ui.result(&serde_json::json!({ "written": path, "bytes": text.len() }), String::new);
        }
        match ui.json {
            true => ui.result(&serde_json::json!({ "dump": text }), String::new),
            false => ui::print(text),
        }
    }

    /// The program with smaller tables, if that is asked.
    fn compressed(&self, pipeline: Arc<Pipeline>, sizes: Sizes, ui: Ui) -> Result<(Arc<Pipeline>, Sizes), Failure> {
        if self.compress == "none" {
            return Ok((pipeline, sizes));
        }
        let chip = Chip::shipped(self.target.chip().unwrap_or("tofino1"))
            .ok_or_else(|| Failure::Usage(format!("there is no chip for {}", self.target.name())))?;
        let seed = self.digest_seed.unwrap_or_else(|| fastrand::u64(..));
        let steps = compressions(&self.compress, &pipeline, &sizes, &chip, seed).map_err(Failure::Usage)?;
        let mut rewritten = Rewritten::unchanged(pipeline, sizes);
        for step in &steps {
            let failed = |error| Failure::refused(format!("{}: {error}", step.name));
            rewritten = rewritten.then(&step.rewrite).map_err(failed)?;
            if !ui.json {
                ui.note(&step.name);
            }
        }
        if steps.iter().any(|step| step.name.starts_with("digest")) && self.digest_seed.is_none() {
            ui.note(format!("digests start from {seed}: --digest-seed {seed} gives the same program again"));
        }
        if self.target.is_tofino() {
            rewritten = for_a_chip(rewritten).map_err(Failure::refused)?;
        }
        Ok((rewritten.pipeline, rewritten.sizes))
    }

    /// The lower half, as the file's name says.
    fn lower(&self, path: &Path, cut: &Cut) -> Result<String, Failure> {
        if path.extension().is_some_and(|ending| ending == "p4") {
            let written = emit(&cut.lower, Target::Pna, &Sizes::new()).map_err(Failure::refused)?;
            return Ok(written.text);
        }
        Ok(ir::text::print(&cut.lower))
    }
}

/// The pipeline after a pass, or after all of them, each under its name; or the list of passes.
fn dump(pipeline: &Pipeline, target: Target, halves: Halves, name: &str) -> Result<String, Failure> {
    if name == "passes" {
        return Ok(PASSES.iter().map(|pass| format!("{:<24}{}\n", pass.name, pass.reason)).collect());
    }
    if name != "all" && !PASSES.iter().any(|pass| pass.name == name) {
        let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        return Err(Failure::Usage(format!("there is no pass `{name}`; the passes are {}", names.join(", "))));
    }
    let mut text = String::new();
    let observe = |pass: &Pass<Asked>, pipeline: &Pipeline| match name {
        "all" => text.push_str(&format!("// after {}\n{}\n", pass.name, ir::text::print(pipeline))),
        _ if pass.name == name => text = ir::text::print(pipeline),
        _ => {}
    };
    observe_passes(pipeline, target, halves, observe).map_err(Failure::refused)?;
    Ok(text)
}

/// The places where packets leave, each with the reason.
fn stops(pipeline: &Pipeline, cut: Option<&Cut>) -> Vec<String> {
    let stop = |point: &Point| {
        let file = pipeline.file_of(point.loc);
        let place =
            file.map_or("the beginning".to_owned(), |file| format!("{file}:{}:{}", point.loc.line, point.loc.column));
        format!("{place}: {} ({} bits go along)", point.why, point.carried_bits)
    };
    cut.into_iter().flat_map(|cut| &cut.points).map(stop).collect()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
