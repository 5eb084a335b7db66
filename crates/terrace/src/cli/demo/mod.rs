//! `terrace demo`: builds a region on this machine and shows how its gateway works.

mod capture;
mod counters;
mod frame;
mod gateway_process;
mod live;
mod name_service;
mod report;
mod scenario;
mod show;
mod stream;
mod table;
mod work_dir;

use super::engine_args::EngineArgs;
use super::failure::CommandError;
use super::io_args::IoArgs;
use super::ui::{OutputSettings, print_line, style};
use crate::lab;
use clap::Args;
use live::DemoLab;
use report::{DemoReport, PacketExplanation, ProbeResult};
use scenario::{CHANGED, PASS, REGION_FILE, STOP, changed_region};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use table::{StyledCell, StyledTable};
use work_dir::WorkDir;

/// Show the gateway at work: tenants' VMs and the Internet in network namespaces, real pings, real TCP, a
/// change under load.
///
/// Builds the lab of examples/lab.yaml, tests which VMs, services and hosts reach each other and which must
/// not, explains a packet, shows counters, changes the region while packets flow, and removes everything
/// again. The exit code is 0 if all results were as expected, else 1. Needs root. Where network
/// namespaces are not allowed, the same scenario runs from capture files to capture files.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Use capture files even where network namespaces are allowed.
    #[arg(long)]
    captures: bool,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Also write the results to this file as JSON.
    #[arg(long, value_name = "FILE.json")]
    report: Option<PathBuf>,
    /// Name of the lab. Needed only if two demos run at the same time.
    #[arg(long, value_name = "NAME", default_value_t = format!("demo{}", std::process::id()), hide_default_value = true)]
    name: String,
}

/// Shared context of all steps.
struct Demo {
    ui: OutputSettings,
    program: PathBuf,
    work: Rc<WorkDir>,
    report: DemoReport,
    headings: usize,
}

impl DemoArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let began = Instant::now();
        let stop = lab::stop_on_signals().map_err(CommandError::system)?;
        let program = std::env::current_exe().map_err(CommandError::system)?;
        let work = Rc::new(WorkDir::new(&self.name)?);
        let mut demo = Demo { ui, program, work, report: DemoReport::default(), headings: 0 };
        let permitted = match self.captures {
            true => Err("asked for with --captures".to_owned()),
            false => lab::permitted().map_err(|error| error.to_string()),
        };
        match permitted {
            Ok(()) => demo.in_namespaces(&self.name, (self.io, &self.engine), &stop)?,
            Err(why) => demo.over_captures(why, &self.engine, &stop)?,
        }
        demo.finish(began, self.report.as_deref())
    }
}

impl Demo {
    fn print_text(&self, text: &str) -> Result<(), CommandError> {
        if self.ui.json { Ok(()) } else { print_line(text) }
    }

    fn print_heading(&mut self, title: &str) -> Result<(), CommandError> {
        self.headings += 1;
        self.print_text(&show::heading(self.headings, title))
    }

    /// Runs the scenario with real traffic between network namespaces. `gateway_options` chooses
    /// the gateway's I/O and engine.
    fn in_namespaces(
        &mut self,
        name: &str,
        gateway_options: (IoArgs, &EngineArgs),
        stop: &AtomicBool,
    ) -> Result<(), CommandError> {
        self.report.mode = "namespaces";
        self.print_heading("A region on this machine")?;
        let began = Instant::now();
        let bar = self.ui.progress("building the lab");
        let live = DemoLab::start(name, &self.program, &self.work, gateway_options, stop)?;
        drop(bar);
        self.print_text(&introduction(live.topology(), began))?;

        self.print_heading("Who reaches whom")?;
        let reachable = live.send_all_probes(PASS)?;
        self.show_probes(reachable)?;
        self.print_heading("What must not pass")?;
        let blocked = live.send_each_probe(STOP)?;
        self.show_probes(blocked)?;

        self.print_heading("TCP (iperf3)")?;
        for plans in live::FAST {
            let streams = live.streams(plans)?;
            self.report.streams.extend(streams);
        }
        self.print_text(&show::streams(&self.report.streams))?;
        self.explain_packet()?;

        self.print_heading("What the gateway counted")?;
        self.report.counters = counters::label_counters(&live.gateway().stats()?, &self.work)?;
        self.print_text(&show::counters(&self.report.counters))?;

        self.print_heading("The region changes while packets flow")?;
        let change = live.change_under_load(&self.work)?;
        self.print_text(&show::change(&change))?;
        self.judge_change(&change);
        self.report.change = Some(change);
        let changed = live.send_each_probe(CHANGED)?;
        self.show_probes(changed)?;
        live.end()
    }

    /// Runs the scenario over capture files, for a machine without namespaces; `reason` says what
    /// it lacks.
    fn over_captures(&mut self, reason: String, engine: &EngineArgs, stop: &AtomicBool) -> Result<(), CommandError> {
        self.report.mode = "captures";
        self.print_text(&format!(
            "No network namespaces here: {reason}\nThe same scenario runs from capture file to capture file instead. Packets are built by this program;\n\
             who gets them is read from the captures."
        ))?;
        self.report.why = Some(reason);
        self.print_heading("Who reaches whom")?;
        let (program, work) = (self.program.clone(), Rc::clone(&self.work));
        let captures = capture::CaptureScenario::new(&program, engine, &work, stop)?;
        let reachable = captures.send_probes(PASS)?;
        self.show_probes(reachable)?;
        self.print_heading("What must not pass")?;
        let blocked = captures.send_probes(STOP)?;
        self.show_probes(blocked)?;
        self.explain_packet()?;
        self.print_heading("What the gateway counted")?;
        self.report.counters = counters::label_counters(&captures.stats(), &self.work)?;
        self.print_text(&show::counters(&self.report.counters))?;
        self.print_heading("The same with a changed region")?;
        work.edit_region(&changed_region())?;
        let changed = captures.send_probes(CHANGED)?;
        self.show_probes(changed)
    }

    fn show_probes(&mut self, results: Vec<ProbeResult>) -> Result<(), CommandError> {
        self.print_text(&show::probes(&results))?;
        for result in results.iter().filter(|result| !result.ok) {
            let ProbeResult { from, to, expected, got, .. } = result;
            self.report.problems.push(format!("{from} to {to}: expected {expected}, got {got}"));
        }
        self.report.probes.extend(results);
        Ok(())
    }

    /// Records a problem for each unaffected stream that lost packets, and if the invalid file was
    /// accepted.
    fn judge_change(&mut self, change: &report::RegionChange) {
        let problems = &mut self.report.problems;
        for stream in change.untouched.iter().filter(|stream| stream.lost.unwrap_or(0) > 0) {
            problems.push(format!("{} to {}: packets were lost while the region changed", stream.from, stream.to));
        }
        if !change.kept.all_answered() {
            problems.push(format!("connections to {} ended while the region changed", change.kept.to));
        }
        for dropped in &change.dropped {
            problems.push(format!(
                "{} packets were dropped while the region changed: {}",
                dropped.count.packets, dropped.name
            ));
        }
        if change.refused.is_empty() {
            problems.push("a wrong region file was taken".to_owned());
        }
    }

    /// Runs `terrace trace` on a packet between peered VPCs.
    fn explain_packet(&mut self) -> Result<(), CommandError> {
        self.print_heading("One packet, explained")?;
        let arguments = ["--vni", "100", "--inner-src", "10.0.0.11", "--inner-dst", "10.3.0.11", "--dport", "443"];
        let mut all = vec!["trace", "--region", REGION_FILE];
        all.extend(arguments);
        let text = run_self(&self.program, &all, self.work.root())?;
        let explained = PacketExplanation { command: format!("terrace {}", all.join(" ")), text };
        self.print_text(&show::explained(&explained))?;
        self.report.explained = Some(explained);
        Ok(())
    }

    /// Writes the report to `file`, if given, and prints the verdict. Fails if something was not as
    /// expected.
    fn finish(mut self, began: Instant, file: Option<&Path>) -> Result<(), CommandError> {
        self.report.ok = self.report.problems.is_empty();
        self.report.seconds = began.elapsed().as_secs_f64();
        if let Some(path) = file {
            let text =
                serde_json::to_string_pretty(&self.report).map_err(|error| CommandError::Bug(error.to_string()))?;
            let failed =
                |error| CommandError::Environment(format!("cannot write {}: {error}; check the path", path.display()));
            std::fs::write(path, text + "\n").map_err(failed)?;
        }
        let report = &self.report;
        let (good, bad) = (style::GOOD, style::BAD);
        let seconds = report.seconds;
        self.ui.result(report, || match report.ok {
            true => format!(
                "\n{good}All as expected{good:#}: {} attempts, {seconds:.0} s. Everything was removed again.",
                report.probes.len()
            ),
            false => {
                let list: String = report.problems.iter().map(|problem| format!("\n  {problem}")).collect();
                format!("\n{bad}Not as expected{bad:#}:{list}")
            }
        })?;
        if report.ok { Ok(()) } else { Err(CommandError::Failed) }
    }
}

/// Summarises the built lab in a few lines.
fn introduction(topology: &lab::Topology, began: Instant) -> String {
    let mut table = StyledTable::default();
    for server in &topology.servers {
        let here = topology.vms.iter().filter(|vm| vm.server == server.name).map(|vm| vm.name.as_str());
        let here = here.collect::<Vec<_>>().join(" ");
        let cells = [format!("server {}", server.name), server.address.to_string(), here];
        table.row(cells.map(StyledCell::new));
    }
    for remote in &topology.remotes {
        table.row([format!("remote {}", remote.name), remote.address.to_string()].map(StyledCell::new));
    }
    if let Some(lab::Internet { router, host, over_v6, .. }) = &topology.internet {
        let hosts = over_v6.map_or(host.to_string(), |[_, v6]| format!("{host} {v6}"));
        table.row(["internet".to_owned(), router.to_string(), hosts].map(StyledCell::new));
    }
    let namespaces = topology.namespaces().len();
    table.render()
        + &format!(
            "  {namespaces} network namespaces, the servers with the kernel's VXLAN, and between them gateway.p4: {:.1} s",
            began.elapsed().as_secs_f64()
        )
}

/// Runs this program with other arguments, and returns its output.
fn run_self(program: &Path, arguments: &[&str], directory: &Path) -> Result<String, CommandError> {
    let mut command = Command::new(program);
    command.args(["--color", "never"]).args(arguments).current_dir(directory).stdin(Stdio::null());
    let output = command.output().map_err(CommandError::system)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(CommandError::Bug(format!("`terrace {}` failed: {said}", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
