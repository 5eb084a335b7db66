//! `terrace demo`: a region on this machine, and what its gateway does, shown.

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
use super::failure::Failure;
use super::io_args::IoArgs;
use super::ui::{Ui, print, style};
use crate::lab;
use clap::Args;
use live::Live;
use report::{Explained, ProbeResult, Report};
use scenario::{CHANGED, PASS, REGION_FILE, STOP, changed_region};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use table::{Cell, Table};
use work_dir::WorkDir;

/// Show the gateway at work: tenants' machines in network namespaces, real pings, real TCP, a change under load.
///
/// Builds the lab of examples/lab.yaml, tries who reaches whom and who must not, explains a packet, shows counters, changes the region while
/// packets flow, and removes everything again. The exit code is 0 if all was as expected, 1 if not. Needs root; where network namespaces are
/// not allowed, the same scenario runs from capture file to capture file.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Use capture files even where network namespaces are allowed.
    #[arg(long)]
    captures: bool,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Write what was found there, too, as a document.
    #[arg(long, value_name = "FILE.json")]
    report: Option<PathBuf>,
    /// The name of the lab, should another one run at the same time.
    #[arg(long, value_name = "NAME", default_value_t = format!("demo{}", std::process::id()), hide_default_value = true)]
    name: String,
}

/// What all steps need.
struct Demo {
    ui: Ui,
    program: PathBuf,
    work: Rc<WorkDir>,
    report: Report,
    headings: usize,
}

impl DemoArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let began = Instant::now();
        let stop = lab::stop_on_signals().map_err(Failure::system)?;
        let program = std::env::current_exe().map_err(Failure::system)?;
        let work = Rc::new(WorkDir::new(&self.name)?);
        let mut demo = Demo { ui, program, work, report: Report::default(), headings: 0 };
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
    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.ui.json { Ok(()) } else { print(text) }
    }

    fn heading(&mut self, title: &str) -> Result<(), Failure> {
        self.headings += 1;
        self.say(&show::heading(self.headings, title))
    }

    fn in_namespaces(&mut self, name: &str, by: (IoArgs, &EngineArgs), stop: &AtomicBool) -> Result<(), Failure> {
        self.report.mode = "namespaces";
        self.heading("A region on this machine")?;
        let began = Instant::now();
        let bar = self.ui.progress("building the lab");
        let live = Live::start(name, &self.program, &self.work, by, stop)?;
        drop(bar);
        self.say(&introduction(live.topology(), began))?;

        self.heading("Who reaches whom")?;
        let passed = live.try_together(PASS)?;
        self.show_probes(passed)?;
        self.heading("What must not pass")?;
        let blocked = live.try_each(STOP)?;
        self.show_probes(blocked)?;

        self.heading("TCP (iperf3)")?;
        for plans in live::FAST {
            let streams = live.streams(plans)?;
            self.report.streams.extend(streams);
        }
        self.say(&show::streams(&self.report.streams))?;
        self.explain()?;

        self.heading("What the gateway counted")?;
        self.report.counters = counters::collect(&live.gateway().stats()?, &self.work)?;
        self.say(&show::counters(&self.report.counters))?;

        self.heading("The region changes while packets flow")?;
        let change = live.change_under_load(&self.work)?;
        self.say(&show::change(&change))?;
        self.judge_change(&change);
        self.report.change = Some(change);
        let changed = live.try_each(CHANGED)?;
        self.show_probes(changed)?;
        live.end()
    }

    fn over_captures(&mut self, why: String, engine: &EngineArgs, stop: &AtomicBool) -> Result<(), Failure> {
        self.report.mode = "captures";
        self.say(&format!(
            "No network namespaces here: {why}\nThe same scenario runs from capture file to capture file instead. Packets are built by this program;\n\
             who gets them is read from the captures."
        ))?;
        self.report.why = Some(why);
        self.heading("Who reaches whom")?;
        let (program, work) = (self.program.clone(), Rc::clone(&self.work));
        let captures = capture::Captures::new(&program, engine, &work, stop)?;
        let passed = captures.try_all(PASS)?;
        self.show_probes(passed)?;
        self.heading("What must not pass")?;
        let blocked = captures.try_all(STOP)?;
        self.show_probes(blocked)?;
        self.explain()?;
        self.heading("What the gateway counted")?;
        self.report.counters = counters::collect(&captures.stats(), &self.work)?;
        self.say(&show::counters(&self.report.counters))?;
        self.heading("The same with a changed region")?;
        work.edit_region(&changed_region())?;
        let changed = captures.try_all(CHANGED)?;
        self.show_probes(changed)
    }

    fn show_probes(&mut self, results: Vec<ProbeResult>) -> Result<(), Failure> {
        self.say(&show::probes(&results))?;
        for result in results.iter().filter(|result| !result.ok) {
            let ProbeResult { from, to, expected, got, .. } = result;
            self.report.problems.push(format!("{from} to {to}: expected {expected}, got {got}"));
        }
        self.report.probes.extend(results);
        Ok(())
    }

    /// Streams that a change does not concern lose nothing; a wrong file is refused.
    fn judge_change(&mut self, change: &report::Change) {
        let problems = &mut self.report.problems;
        for stream in change.untouched.iter().filter(|stream| stream.lost.unwrap_or(0) > 0) {
            problems.push(format!("{} to {}: packets were lost while the region changed", stream.from, stream.to));
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
    fn explain(&mut self) -> Result<(), Failure> {
        self.heading("One packet, explained")?;
        let arguments = ["--vni", "100", "--inner-src", "10.0.0.11", "--inner-dst", "10.3.0.11", "--dport", "443"];
        let mut all = vec!["trace", "--region", REGION_FILE];
        all.extend(arguments);
        let text = run_self(&self.program, &all, self.work.root())?;
        let explained = Explained { command: format!("terrace {}", all.join(" ")), text };
        self.say(&show::explained(&explained))?;
        self.report.explained = Some(explained);
        Ok(())
    }

    fn finish(mut self, began: Instant, file: Option<&Path>) -> Result<(), Failure> {
        self.report.ok = self.report.problems.is_empty();
        self.report.seconds = began.elapsed().as_secs_f64();
        if let Some(path) = file {
            let text = serde_json::to_string_pretty(&self.report).map_err(|error| Failure::Bug(error.to_string()))?;
            let failed =
                |error| Failure::Environment(format!("cannot write {}: {error}; check the path", path.display()));
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
        if report.ok { Ok(()) } else { Err(Failure::Failed) }
    }
}

/// What was built, in a few lines.
fn introduction(topology: &lab::Topology, began: Instant) -> String {
    let mut table = Table::default();
    for server in &topology.servers {
        let here = topology.vms.iter().filter(|vm| vm.server == server.name).map(|vm| vm.name.as_str());
        let here = here.collect::<Vec<_>>().join(" ");
        let cells = [format!("server {}", server.name), server.address.to_string(), here];
        table.row(cells.map(Cell::new));
    }
    for remote in &topology.remotes {
        table.row([format!("remote {}", remote.name), remote.address.to_string()].map(Cell::new));
    }
    let namespaces = topology.namespaces().len();
    table.render()
        + &format!(
            "  {namespaces} network namespaces, the servers with the kernel's VXLAN, and between them gateway.p4: {:.1} s",
            began.elapsed().as_secs_f64()
        )
}

/// Runs this program with other arguments, and gives what it prints.
fn run_self(program: &Path, arguments: &[&str], directory: &Path) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.args(["--color", "never"]).args(arguments).current_dir(directory).stdin(Stdio::null());
    let output = command.output().map_err(Failure::system)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::Bug(format!("`terrace {}` failed: {said}", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
