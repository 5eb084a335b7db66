//! `terrace plan`.

use super::failure::Failure;
use super::inputs::load_region;
use super::program_args::SourceArgs;
use super::sizing::{read_small, sizing};
use super::ui::Ui;
use crate::plan::{chart, heat, page, region_sizes::region_sizes, text};
use crate::program::DEFAULT_PROGRAM;
use asic::demand::Program;
use asic::emit::{self, Halves};
use asic::place::{Objective, Path as Way, heuristic};
use asic::rewrite::Sizes;
use asic::target::Target;
use clap::{Args, ValueEnum};
use ir::Pipeline;
use offload::clusters::{Clusters, Tenant, spread, tenants};
use offload::plan::{self, Doing, Fold, Plan, Question, SweepAsk, Try};
use offload::sizing::Sizing;
use region::Numbers;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What digests start from in a plan. No entry is made from it: a node takes one of its own that nobody knows.
const DIGEST_SEED: u64 = 0x7e55_ace5_0000_0001;

/// Does a program with so many entries fit on a switching chip, how, at what throughput, and how many clusters does a region take?
///
/// The report names the resource that binds and what would free it. With --html it is a page with a heat map of stages by resources for each
/// step, with --svg the last heat map alone. The exit code is 1 if the program does not fit.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The program; the gateway that terrace brings along unless given.
    #[arg(value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// The chip: tofino1, tofino2, dpu8, or a target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// How many entries each table must hold (docs/plan.md); without, the program's own sizes.
    #[arg(long, value_name = "FILE.toml")]
    sizes: Option<PathBuf>,
    /// Another value for a parameter of the sizing file: vms=2M.
    #[arg(long, value_name = "NAME=VALUE", requires = "sizes")]
    set: Vec<String>,
    /// Take the entries of the gateway's tables, and its tenants, from a region file; of a sizing file, only what it says of objects counts then.
    #[arg(long, value_name = "FILE.yaml", conflicts_with_all = ["set", "sweep"])]
    region: Option<PathBuf>,
    /// Pipes that are folded into one: auto folds as few as it takes.
    #[arg(long, value_name = "auto|1|2|4", default_value = "auto", value_parser = fold)]
    fold: Fold,
    /// Parts that the entries of the sizing file's tenants' tables are split into, each in parallel pipes of its own; with folding, pipes / fold
    /// at most.
    #[arg(long, value_name = "1|2|4", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    split: u32,
    /// How tables are made smaller: auto looks for the cheapest combination; or steps in their order, `pool:TABLE+TABLE`, `digest:TABLE`,
    /// `alpm:TABLE`, `results:TABLE.ARGUMENT*VALUES`, `pieces:TABLE*N`, separated by commas.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "auto")]
    compress: String,
    /// What makes one placement better than another.
    #[arg(long, value_enum, default_value_t = Goal::Fits)]
    objective: Goal,
    /// Seconds to search for the best placement by integer programming; 0 takes the heuristic's.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    time_limit: u64,
    /// Place the program as `terrace emit` writes it for the chip: without what the chip has no form for, in as few steps, and with the tables
    /// that the text has besides. That is what the chip's compiler is given.
    #[arg(long)]
    as_emitted: bool,
    /// As `terrace emit --egress` writes it, over both halves of a pipe.
    #[arg(long, requires = "as_emitted")]
    egress: bool,
    /// Share of each table's room that may be filled, for what is still to come: 0.8.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    water_level: f64,
    /// How far can a parameter of the sizing file go? vms=100k..4M, or with a line for each value of another one: vms=100k..4M/ipv6=0,0.5,1.
    #[arg(long, value_name = "SWEEP", requires = "sizes")]
    sweep: Vec<SweepAsk>,
    /// Write the report as a page that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write the last heat map, or with --sweep the plot, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// What makes one placement better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// Any that fits.
    Fits,
    /// The fewest stages.
    Stages,
    /// The fullest stage is the least full.
    Headroom,
    /// Room for the most entries, all tables in proportion.
    Entries,
}

impl From<Goal> for Objective {
    fn from(goal: Goal) -> Objective {
        match goal {
            Goal::Fits => Objective::Fits,
            Goal::Stages => Objective::FewestStages,
            Goal::Headroom => Objective::MostHeadroom,
            Goal::Entries => Objective::MostEntries,
        }
    }
}

fn fold(text: &str) -> Result<Fold, String> {
    match text {
        "auto" => Ok(Fold::Auto),
        "1" | "2" | "4" => Ok(Fold::Pipes(text.parse().unwrap_or(1))),
        _ => Err("auto, 1, 2 or 4".to_owned()),
    }
}

/// What a plan is made for.
struct Asked {
    pipeline: Arc<Pipeline>,
    target: Target,
    sizing: Sizing,
    sizes: Sizes,
    /// Tenants with their entries, and the entries that belong to none.
    tenants: Option<(Vec<Tenant>, Sizes)>,
}

impl PlanArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        if !(self.water_level > 0.0 && self.water_level <= 1.0) {
            return Err(Failure::Usage("--water-level is above 0 and at most 1".to_owned()));
        }
        let asked = self.asked(ui)?;
        if self.split > 1 && asked.sizing.tenants().is_none() {
            let mend = "name them in the sizing file: [tenants] tables = [...]";
            return Err(Failure::Usage(format!("--split needs to know the tables whose entries can be split; {mend}")));
        }
        let compressions = {
            let _progress = ui.progress("looking for the cheapest combination of steps");
            plan::compressions(&self.compress, &asked.pipeline, &asked.sizes, &asked.target, DIGEST_SEED)
                .map_err(Failure::Usage)?
        };
        let question = Question {
            pipeline: asked.pipeline.clone(),
            sizes: filled(&asked.sizes, self.water_level),
            objects: asked.sizing.objects().map_err(Failure::refused)?,
            target: asked.target.clone(),
            fold: self.fold,
            split: self.split,
            divided: asked.sizing.tenants().map(|tenants| tenants.tables.clone()).unwrap_or_default(),
            objective: self.objective.into(),
            limit: Duration::from_secs(self.time_limit),
            emitted: self.emitted(&asked.target)?,
        };
        let mut made = self.make(&question, &compressions, ui)?;
        if let Some((tenants, shared)) = &asked.tenants {
            made.report.clusters = Some(self.clusters(&question, &made, tenants.clone(), shared, &compressions, ui));
        }
        for ask in &self.sweep {
            let _progress = ui.progress(format!("sweeping {}", ask.parameter));
            let mut tries = Tries { question: &question, compressions: &compressions, path: made.last.path.clone() };
            made.report.sweeps.push(plan::sweep(&asked.sizing, ask, &mut tries).map_err(Failure::Refused)?);
        }
        self.show(&made, ui)
    }

    fn asked(&self, ui: Ui) -> Result<Asked, Failure> {
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let target = target(&self.target)?;
        let names: Vec<String> = pipeline.tables.values().map(|table| table.preamble.name.clone()).collect();
        let mut sizing = match &self.sizes {
            Some(path) => sizing(path, &pipeline)?,
            None => Sizing::empty(),
        };
        for set in &self.set {
            let (name, value) =
                set.split_once('=').ok_or_else(|| Failure::Usage(format!("`{set}` is not NAME=VALUE")))?;
            let value = plan::number(value).map_err(Failure::Usage)?;
            sizing = sizing.with(name.trim(), value).map_err(Failure::Usage)?;
        }
        if let Some(path) = &self.region {
            let loaded = load_region(path, &pipeline, &mut Numbers::default(), ui)?;
            let counted = region_sizes(&pipeline, &loaded.entries.entries);
            // A table that the region has nothing for is empty, and has not the program's size.
            let empty = || names.iter().map(|name| (name.clone(), 0));
            let sizes = empty().chain(counted.total).collect();
            let shared = empty().chain(counted.shared).collect();
            return Ok(Asked { pipeline, target, sizing, sizes, tenants: Some((counted.tenants, shared)) });
        }
        let sizes = sizing.sizes().map_err(Failure::refused)?;
        let tenants = sizing.tenants().map(|description| {
            let mut shared = sizes.clone();
            description.tables.iter().for_each(|table| {
                shared.remove(table);
            });
            (tenants(description, &sizes), shared)
        });
        Ok(Asked { pipeline, target, sizing, sizes, tenants })
    }

    /// The architecture and the halves that the program is written for, if that is asked.
    fn emitted(&self, chip: &Target) -> Result<Option<(emit::Target, Halves)>, Failure> {
        if !self.as_emitted {
            return Ok(None);
        }
        let target = emit::Target::of_chip(&chip.name).ok_or_else(|| {
            Failure::Usage(format!("there is no P4 for {}: --as-emitted is for tofino1 and tofino2", chip.name))
        })?;
        Ok(Some((target, if self.egress { Halves::Both } else { Halves::Ingress })))
    }

    fn make(&self, question: &Question, compressions: &[plan::Compression], ui: Ui) -> Result<Plan, Failure> {
        let progress = ui.progress("planning");
        let mut watch = |doing: Doing<'_>| match doing {
            Doing::Step(step) => progress.say(step),
            Doing::Search(search) => {
                let best = search.best.map_or("nothing yet".to_owned(), |best| format!("{best:.2}"));
                let (spent, limit) = (search.elapsed.as_secs(), search.limit.as_secs());
                progress
                    .say(&format!("{}: best {best}, bound {:.2}, {spent} of {limit} s", search.doing, search.bound));
            }
        };
        plan::make(question, compressions, &mut watch).map_err(Failure::refused)
    }

    /// Clusters for the tenants: each takes what one switch holds by the plan's steps and folding.
    fn clusters(
        &self,
        question: &Question,
        made: &Plan,
        tenants: Vec<Tenant>,
        shared: &Sizes,
        compressions: &[plan::Compression],
        ui: Ui,
    ) -> Clusters {
        let _progress = ui.progress("spreading tenants over clusters");
        let level = self.water_level;
        let mut tries = Tries { question, compressions, path: self.cluster_path(question, made) };
        spread(tenants, shared, |sizes| tries.fits(&filled(sizes, level)).unwrap_or(false))
    }

    /// A cluster is folded as the plan is; if the whole does not fit even folded, as far as it goes.
    fn cluster_path(&self, question: &Question, made: &Plan) -> Way {
        match (self.fold, made.last.placed.is_ok()) {
            (Fold::Auto, false) => {
                Way::folded(&question.target, question.target.pipes).unwrap_or_else(|_| Way::unfolded())
            }
            _ => made.last.path.clone(),
        }
    }

    fn show(&self, made: &Plan, ui: Ui) -> Result<(), Failure> {
        let report = &made.report;
        if let Some(path) = &self.html {
            write(path, &page::page(report))?;
        }
        if let Some(path) = &self.svg {
            let plots = report.sweeps.first().map(chart::svg);
            let maps = || report.steps.last().map(|step| heat::file(&step.heat));
            write(path, &plots.or_else(maps).unwrap_or_default())?;
        }
        ui.result(report, || text::report(report))?;
        if report.fits { Ok(()) } else { Err(Failure::Failed) }
    }
}

/// Sizes that leave room: what is asked, as that share of what there is room for.
fn filled(sizes: &Sizes, level: f64) -> Sizes {
    sizes.iter().map(|(name, count)| (name.clone(), (*count as f64 / level).ceil() as u64)).collect()
}

/// Asks, again and again with other sizes, what tables ask for and whether they fit.
struct Tries<'a> {
    question: &'a Question,
    compressions: &'a [plan::Compression],
    path: Way,
}

impl Tries<'_> {
    fn program(&self, sizes: &Sizes) -> Result<Program, String> {
        let mut rewritten = self.question.start(sizes, self.question.split);
        for compression in self.compressions {
            rewritten = rewritten.then(&compression.rewrite).map_err(|error| error.to_string())?;
        }
        self.question.demand(&rewritten).map_err(|error| error.to_string())
    }
}

impl Try for Tries<'_> {
    type Error = String;

    fn shares(&mut self, sizes: &Sizes) -> Result<(f64, f64), String> {
        Ok(plan::shares(&self.question.target, &self.program(sizes)?))
    }

    fn fits(&mut self, sizes: &Sizes) -> Result<bool, String> {
        let program = self.program(sizes)?;
        Ok(heuristic(&self.question.target, &program, &self.path, Objective::Fits).is_ok())
    }
}

/// A target by its name, or from a file.
pub(super) fn target(name: &str) -> Result<Target, Failure> {
    if let Some(target) = Target::shipped(name) {
        return Ok(target);
    }
    let path = Path::new(name);
    if path.extension().is_none() {
        let known = Target::SHIPPED.join(", ");
        return Err(Failure::Usage(format!("there is no target `{name}`; there are {known}, or give a target file")));
    }
    let text = read_small(path)?;
    Target::from_toml(&text, name).map_err(Failure::refused)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
