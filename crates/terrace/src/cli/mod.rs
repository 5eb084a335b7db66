//! Subcommands of `terrace`, one file each.

#[cfg(feature = "wings")]
mod cache_eval;
mod check;
mod compile;
mod completions;
mod demo;
mod doctor;
#[cfg(feature = "wings")]
mod emit;
mod engine_args;
pub mod failure;
mod gateway;
mod inputs;
mod io_args;
mod lab;
mod nat;
mod node_socket;
#[cfg(feature = "wings")]
mod plan;
mod program_args;
mod region;
mod run;
mod services;
mod sessions;
mod show;
#[cfg(feature = "wings")]
mod sizing;
mod stf;
mod text_table;
mod trace;
pub mod ui;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use failure::{CommandError, EXIT_CODES};
use std::io::Write;
use std::process::ExitCode;
use ui::{OutputSettings, style};

/// Write network functions in P4-16 for switch, DPU and CPU: check, compile, run and trace them.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXIT_CODES, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options of all commands.
#[derive(Debug, Args)]
struct GlobalArgs {
    /// Print the result as one JSON document on standard output.
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    color: ColorMode,
    /// Print no progress and no notes on standard error.
    #[arg(long, short, global = true, help_heading = "Global options")]
    quiet: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ColorMode {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Compile(compile::CompileArgs),
    #[cfg(feature = "wings")]
    Emit(emit::EmitArgs),
    Run(run::RunArgs),
    Trace(Box<trace::TraceArgs>),
    /// Explain which parts of a packet's path a flow cache can keep: `terrace trace --offload`.
    WhyNotOffloaded(Box<trace::TraceArgs>),
    Show(show::ShowArgs),
    Sessions(sessions::SessionsArgs),
    ResetCounters(show::ResetCountersArgs),
    Gateway(gateway::GatewayArgs),
    Lab(lab::LabArgs),
    #[cfg(feature = "wings")]
    Plan(Box<plan::PlanArgs>),
    #[cfg(feature = "wings")]
    CacheEval(Box<cache_eval::CacheEvalArgs>),
    Region(region::RegionArgs),
    Stf(stf::StfArgs),
    Demo(demo::DemoArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let choice = match cli.global.color {
        ColorMode::Auto => anstream::ColorChoice::Auto,
        ColorMode::Always => anstream::ColorChoice::Always,
        ColorMode::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    let ui = OutputSettings { json: cli.global.json, quiet: cli.global.quiet };
    match run(cli.command, ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, ui);
            ExitCode::from(&failure)
        }
    }
}

/// Runs a subcommand. Commands for chips and caches are absent from builds without `wings`.
fn run(command: Command, ui: OutputSettings) -> Result<(), CommandError> {
    match command {
        Command::Check(args) => args.run(ui),
        Command::Compile(args) => args.run(ui),
        #[cfg(feature = "wings")]
        Command::Emit(args) => args.run(ui),
        Command::Run(args) => args.run(ui),
        Command::Trace(args) => args.run(ui),
        Command::WhyNotOffloaded(args) => args.why_not_offloaded(ui),
        Command::Show(args) => args.run(ui),
        Command::Sessions(args) => args.run(ui),
        Command::ResetCounters(args) => args.run(ui),
        Command::Gateway(args) => args.run(ui),
        Command::Lab(args) => args.run(ui),
        #[cfg(feature = "wings")]
        Command::Plan(args) => args.run(ui),
        #[cfg(feature = "wings")]
        Command::CacheEval(args) => args.run(ui),
        Command::Region(args) => args.run(ui),
        Command::Stf(args) => args.run(ui),
        Command::Demo(args) => args.run(ui),
        Command::Doctor(args) => args.run(ui),
        Command::Completions(args) => args.run(Cli::command()),
    }
}

/// Reports the error of a command: on standard error as text, or on standard output as a JSON
/// document.
fn report(failure: &CommandError, ui: OutputSettings) {
    if failure.is_silent() {
        return;
    }
    let message = failure.to_string();
    if ui.json {
        let document = serde_json::json!({ "error": { "kind": failure.kind(), "message": message } });
        let _ = ui.result(&document, String::new);
    } else {
        let bad = style::BAD;
        let _ = writeln!(anstream::stderr(), "{bad}error{bad:#}: {message}");
    }
}
