//! `terrace compile`.

use super::failure::Failure;
use super::program_args::{SourceArgs, refusal, show};
use super::ui::{self, Ui};
use crate::program;
use clap::Args;
use ir::passes::{Moment, PASSES};
use ir::text::print as print_ir;
use p4::compile::Stage;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Compile a P4-16 program, and print what it looks like at some stage.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// The program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to print.
    ///
    /// tokens, syntax, typed: of the front-end. ir: the pipeline after all passes. ir-before:PASS, ir-after:PASS: around a pass;
    /// `passes` lists them. p4info: the control-plane API as P4Info text.
    #[arg(long, value_name = "STAGE", default_value = "ir")]
    dump: Dump,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the control-plane API of the same pipeline, too, as P4Info text: what a controller gives to a node together with the pipeline
    /// (the device config).
    #[arg(long, value_name = "FILE", conflicts_with = "dump", requires = "output")]
    p4info: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// A stage to print.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dump {
    Tokens,
    Syntax,
    Typed,
    Passes,
    Ir,
    IrBefore(String),
    IrAfter(String),
    P4Info,
}

impl FromStr for Dump {
    type Err = String;

    fn from_str(text: &str) -> Result<Dump, String> {
        Ok(match text {
            "tokens" => Dump::Tokens,
            "syntax" => Dump::Syntax,
            "typed" => Dump::Typed,
            "passes" => Dump::Passes,
            "ir" => Dump::Ir,
            "p4info" => Dump::P4Info,
            _ => match text.split_once(':') {
                Some(("ir-before", pass)) => Dump::IrBefore(pass.to_owned()),
                Some(("ir-after", pass)) => Dump::IrAfter(pass.to_owned()),
                _ => {
                    let stages = "tokens, syntax, typed, passes, ir, ir-before:PASS, ir-after:PASS, p4info";
                    return Err(format!("there is no stage `{text}`; the stages are {stages}"));
                }
            },
        })
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}

impl CompileArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        if let (Some(output), Some(p4info)) = (&self.output, &self.p4info) {
            let pipeline = self.sources.pipeline(&self.file, ui)?;
            let texts = [print_ir(&pipeline), ir::p4info::to_txtpb(&ir::p4info::generate(&pipeline))];
            write(output, &texts[0])?;
            write(p4info, &texts[1])?;
            return ui.result(&serde_json::json!({ "written": output, "p4info": p4info }), String::new);
        }
        let text = self.text(ui)?;
        if let Some(path) = &self.output {
            write(path, &text)?;
            return ui.result(&serde_json::json!({ "written": path, "bytes": text.len() }), String::new);
        }
        match ui.json {
            true => ui.result(&serde_json::json!({ "dump": text }), String::new),
            false => ui::print(&text),
        }
    }

    /// The dump.
    fn text(&self, ui: Ui) -> Result<String, Failure> {
        match &self.dump {
            Dump::Passes => {
                let line = |pass: &ir::passes::Pass| format!("{:<24}{}\n", pass.name, pass.reason);
                Ok(PASSES.iter().map(line).collect())
            }
            Dump::Tokens | Dump::Syntax => {
                let parsed = program::parse(&self.file, &self.sources.sources());
                show(&parsed.diagnostics, &parsed.source_map, ui);
                Ok(match self.dump {
                    Dump::Tokens => p4::lex::dump(&parsed.tokens, &parsed.source_map),
                    _ => p4::ast::dump(&parsed.program),
                })
            }
            Dump::Typed => {
                let compiled = program::check(&self.file, &self.sources.sources());
                match (compiled.has_errors(), compiled.hir) {
                    (false, Some(typed)) => Ok(p4::hir::dump(&typed)),
                    _ => Err(refusal(&compiled.diagnostics, &compiled.source_map, ui)),
                }
            }
            Dump::Ir | Dump::P4Info => {
                let pipeline = self.sources.pipeline(&self.file, ui)?;
                Ok(match self.dump {
                    Dump::P4Info => ir::p4info::to_txtpb(&ir::p4info::generate(&pipeline)),
                    _ => print_ir(&pipeline),
                })
            }
            Dump::IrBefore(name) => self.around(name, Moment::Before, ui),
            Dump::IrAfter(name) => self.around(name, Moment::After, ui),
        }
    }

    /// The pipeline before or after a pass.
    fn around(&self, name: &str, wanted: Moment, ui: Ui) -> Result<String, Failure> {
        if !PASSES.iter().any(|pass| pass.name == name) {
            let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
            return Err(Failure::Usage(format!("there is no pass `{name}`; the passes are {}", names.join(", "))));
        }
        let mut text = None;
        let compiled = program::compile_observed(&self.file, &self.sources.sources(), &mut |stage| {
            if let Stage::Pass(pass, moment, pipeline) = stage
                && pass.name == name
                && moment == wanted
            {
                text = Some(print_ir(pipeline));
            }
        });
        match text {
            Some(text) => {
                show(&compiled.diagnostics, &compiled.source_map, ui);
                Ok(text)
            }
            None => Err(refusal(&compiled.diagnostics, &compiled.source_map, ui)),
        }
    }
}
