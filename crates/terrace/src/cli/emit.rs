//! `terrace emit`.

use super::failure::Failure;
use super::program_args::SourceArgs;
use super::sizing::sizing;
use super::ui::{self, Ui};
use asic::emit::{Halves, Target, emit_over};
use asic::rewrite::Sizes;
use clap::Args;
use std::path::PathBuf;

/// Write a program out again as P4-16 for an architecture: for a switching ASIC (tna, t2na), or for v1model and PNA.
///
/// Tables, actions and keys keep their control-plane names. What the architecture cannot express is named, with its place in the program.
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
    /// For a chip: put what follows the decision about a packet's port into egress, with a bridge header for what it needs.
    #[arg(long)]
    egress: bool,
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
        let halves = if self.egress { Halves::Both } else { Halves::Ingress };
        let emitted = emit_over(&pipeline, self.target, &sizes, halves).map_err(Failure::refused)?;
        if self.egress && emitted.bridge_bytes.is_none() {
            ui.note(
                "all of it is in ingress: nothing that egress could do follows the decision about the packet's port",
            );
        }
        if !ui.json {
            for what in &emitted.left_out {
                ui.note(format!("left out: {what}"));
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
        if let Some(path) = &self.output {
            let failed =
                |error| Failure::environment(format!("cannot write {}: {error}; check the path", path.display()));
            std::fs::write(path, &emitted.text).map_err(failed)?;
            let document = serde_json::json!({ "written": path, "bytes": emitted.text.len(), "left_out": left_out });
            return ui.result(&document, String::new);
        }
        match ui.json {
            true => ui.result(&serde_json::json!({ "text": emitted.text, "left_out": left_out }), String::new),
            false => ui::print(&emitted.text),
        }
    }
}
