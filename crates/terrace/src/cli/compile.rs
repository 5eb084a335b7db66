//! `terrace compile`.

use super::failure::CommandError;
use super::program_args::{SourceArgs, refused_program, show_diagnostics};
use super::ui::{self, OutputSettings};
use crate::program;
use clap::Args;
use ir::passes::{PASSES, PassPhase};
use ir::text::print as print_ir;
use p4::compile::CompileStage;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Compile a P4-16 program and print a stage of the compilation.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// P4-16 program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Stage to print.
    ///
    /// tokens, syntax, typed: stages of the front-end. ir: the pipeline after all passes.
    /// ir-before:PASS, ir-after:PASS: the pipeline before or after a pass; `passes` lists the
    /// passes. p4info: the control-plane API as P4Info text.
    #[arg(long, value_name = "STAGE", default_value = "ir")]
    dump: CompileDump,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the control-plane API of the pipeline as P4Info text. A controller gives it to a
    /// node together with the pipeline (the device config).
    #[arg(long, value_name = "FILE", conflicts_with = "dump", requires = "output")]
    p4info: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Compilation stage to print.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CompileDump {
    Tokens,
    Syntax,
    Typed,
    Passes,
    Ir,
    IrBefore(String),
    IrAfter(String),
    P4Info,
}

impl FromStr for CompileDump {
    type Err = String;

    fn from_str(text: &str) -> Result<CompileDump, String> {
        Ok(match text {
            "tokens" => CompileDump::Tokens,
            "syntax" => CompileDump::Syntax,
            "typed" => CompileDump::Typed,
            "passes" => CompileDump::Passes,
            "ir" => CompileDump::Ir,
            "p4info" => CompileDump::P4Info,
            _ => match text.split_once(':') {
                Some(("ir-before", pass)) => CompileDump::IrBefore(pass.to_owned()),
                Some(("ir-after", pass)) => CompileDump::IrAfter(pass.to_owned()),
                _ => {
                    let stages = "tokens, syntax, typed, passes, ir, ir-before:PASS, ir-after:PASS, p4info";
                    return Err(format!("there is no stage `{text}`; the stages are {stages}"));
                }
            },
        })
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), CommandError> {
    let failed = |error| CommandError::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}

impl CompileArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        if let (Some(output), Some(p4info)) = (&self.output, &self.p4info) {
            let pipeline = self.sources.pipeline(&self.file, ui)?;
            let texts = [print_ir(&pipeline), ir::p4info::to_txtpb(&ir::p4info::generate(&pipeline))];
            write_file(output, &texts[0])?;
            write_file(p4info, &texts[1])?;
            return ui.result(&serde_json::json!({ "written": output, "p4info": p4info }), String::new);
        }
        let text = self.dump_text(ui)?;
        if let Some(path) = &self.output {
            write_file(path, &text)?;
            return ui.result(&serde_json::json!({ "written": path, "bytes": text.len() }), String::new);
        }
        match ui.json {
            true => ui.result(&serde_json::json!({ "dump": text }), String::new),
            false => ui::print_line(&text),
        }
    }

    /// Returns the text of the stage that `--dump` names.
    fn dump_text(&self, ui: OutputSettings) -> Result<String, CommandError> {
        match &self.dump {
            CompileDump::Passes => {
                let line = |pass: &ir::passes::Pass| format!("{:<24}{}\n", pass.name, pass.reason);
                Ok(PASSES.iter().map(line).collect())
            }
            CompileDump::Tokens | CompileDump::Syntax => {
                let parsed = program::parse(&self.file, &self.sources.sources());
                show_diagnostics(&parsed.diagnostics, &parsed.source_map, ui);
                Ok(match self.dump {
                    CompileDump::Tokens => p4::lex::dump(&parsed.tokens, &parsed.source_map),
                    _ => p4::ast::dump(&parsed.program),
                })
            }
            CompileDump::Typed => {
                let compiled = program::check(&self.file, &self.sources.sources());
                match (compiled.has_errors(), compiled.hir) {
                    (false, Some(typed)) => Ok(p4::hir::dump(&typed)),
                    _ => Err(refused_program(&compiled.diagnostics, &compiled.source_map, ui)),
                }
            }
            CompileDump::Ir | CompileDump::P4Info => {
                let pipeline = self.sources.pipeline(&self.file, ui)?;
                Ok(match self.dump {
                    CompileDump::P4Info => ir::p4info::to_txtpb(&ir::p4info::generate(&pipeline)),
                    _ => print_ir(&pipeline),
                })
            }
            CompileDump::IrBefore(name) => self.pass_dump(name, PassPhase::Before, ui),
            CompileDump::IrAfter(name) => self.pass_dump(name, PassPhase::After, ui),
        }
    }

    /// Returns the pipeline before or after a pass; `phase` says which of the two.
    fn pass_dump(&self, name: &str, phase: PassPhase, ui: OutputSettings) -> Result<String, CommandError> {
        if !PASSES.iter().any(|pass| pass.name == name) {
            let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
            return Err(CommandError::Usage(format!("there is no pass `{name}`; the passes are {}", names.join(", "))));
        }
        let mut text = None;
        let compiled = program::compile_observed(&self.file, &self.sources.sources(), &mut |stage| {
            if let CompileStage::Pass(pass, observed_phase, pipeline) = stage
                && pass.name == name
                && observed_phase == phase
            {
                text = Some(print_ir(pipeline));
            }
        });
        match text {
            Some(text) => {
                show_diagnostics(&compiled.diagnostics, &compiled.source_map, ui);
                Ok(text)
            }
            None => Err(refused_program(&compiled.diagnostics, &compiled.source_map, ui)),
        }
    }
}
