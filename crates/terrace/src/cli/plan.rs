//! `terrace plan`.

use super::failure::CommandError;
use super::inputs::load_region;
use super::program_args::{SourceArgs, switch_program};
use super::sizing::{read_sizing, read_small};
use super::ui::OutputSettings;
use crate::plan::{chart, heat, page, region_sizes::region_sizes, text};
use crate::program::DEFAULT_PROGRAM;
use asic::demand::ResourceDemand;
use asic::emit::{self, GressUse};
use asic::place::{Objective, PipePath as Way, heuristic};
use asic::target::ChipTarget;
use asic::transform::TableSizes;
use clap::{Args, ValueEnum};
use ir::Pipeline;
use offload::clusters::{Clusters, Tenant, assign_tenants, expand_tenants};
use offload::plan::{self, PipeFolding, PlanProgress, PlanRequest, ProgramPlan, SweepModel, SweepRequest};
use offload::sizing::Sizing;
use region::IdAssignments;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Seed of key digests in a plan. It need not be secret, because no entries are written with it:
/// each node draws its own secret seed.
const DIGEST_SEED: u64 = 0x7e55_ace5_0000_0001;

/// Plan a program on a switching chip: whether it fits with the given numbers of entries, with
/// which placement and throughput, and on how many clusters.
///
/// The report names the binding resource and changes that would relieve it. With --html it is a
/// page with a heat map of stages by resources for each step; --svg writes the last heat map alone.
/// The exit code is 1 if the program does not fit.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Program to plan. Default: the built-in gateway.
    #[arg(value_name = "FILE.p4", default_value = DEFAULT_PROGRAM, hide_default_value = true)]
    program: PathBuf,
    /// The chip: tofino1, tofino2, dpu8, or a target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// Sizing file with the number of entries of each table (docs/reference/plan.md). Default: the
    /// program's own sizes.
    #[arg(long, value_name = "FILE.toml")]
    sizes: Option<PathBuf>,
    /// Override a parameter of the sizing file: vms=2M.
    #[arg(long, value_name = "NAME=VALUE", requires = "sizes")]
    set: Vec<String>,
    /// Region file to take the gateway's entries and tenants from. A sizing file then determines
    /// only the sizes of objects.
    #[arg(long, value_name = "FILE.yaml", conflicts_with_all = ["set", "sweep"])]
    region: Option<PathBuf>,
    /// Number of pipes to fold into one longer pipe; auto uses the smallest number that is
    /// sufficient.
    #[arg(long, value_name = "auto|1|2|4", default_value = "auto", value_parser = parse_folding)]
    fold: PipeFolding,
    /// Split the entries of the sizing file's tenant tables over this number of parallel pipes;
    /// with folding, at most pipes / fold.
    #[arg(long, value_name = "1|2|4", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    split: u32,
    /// Table compression: auto searches for the cheapest combination. STEPS are applied in order,
    /// separated by commas: `pool:TABLE+TABLE`, `digest:TABLE`, `alpm:TABLE`,
    /// `results:TABLE.ARGUMENT*VALUES`, `pieces:TABLE*N`.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "auto")]
    compress: String,
    /// Objective of the placement.
    #[arg(long, value_enum, default_value_t = PlacementObjective::Fits)]
    objective: PlacementObjective,
    /// Time limit in seconds of the search for the best placement by integer programming; 0 uses
    /// the heuristic's result.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    time_limit: u64,
    /// Place the program as `terrace emit` writes it for the chip: without operations that the chip
    /// cannot express, with the fewest steps, and with the additional tables of the emitted text.
    /// The chip's compiler gets the same program.
    #[arg(long)]
    as_emitted: bool,
    /// Place the program as `terrace emit --use-egress` writes it, over both gresses of a pipe.
    #[arg(long, requires = "as_emitted")]
    use_egress: bool,
    /// Maximum share of each table's capacity to fill, to leave space for growth: 0.8.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    water_level: f64,
    /// Find the limit of a parameter of the sizing file: vms=100k..4M, or with one line for each
    /// value of a second parameter: vms=100k..4M/ipv6=0,0.5,1.
    #[arg(long, value_name = "SWEEP", requires = "sizes")]
    sweep: Vec<SweepRequest>,
    /// Write the report as a self-contained HTML page.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write the last heat map, or with --sweep the plot, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Objective of the placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlacementObjective {
    /// Any placement that fits.
    Fits,
    /// Fewest stages.
    Stages,
    /// Lowest utilization of the fullest stage.
    Headroom,
    /// Capacity for the most entries, with all tables in proportion.
    Entries,
}

impl From<PlacementObjective> for Objective {
    fn from(goal: PlacementObjective) -> Objective {
        match goal {
            PlacementObjective::Fits => Objective::Fits,
            PlacementObjective::Stages => Objective::FewestStages,
            PlacementObjective::Headroom => Objective::MostHeadroom,
            PlacementObjective::Entries => Objective::MostEntries,
        }
    }
}

fn parse_folding(text: &str) -> Result<PipeFolding, String> {
    match text {
        "auto" => Ok(PipeFolding::Auto),
        "1" | "2" | "4" => Ok(PipeFolding::Pipes(text.parse().unwrap_or(1))),
        _ => Err("auto, 1, 2 or 4".to_owned()),
    }
}

/// Inputs of a plan.
struct PlanInputs {
    pipeline: Arc<Pipeline>,
    target: ChipTarget,
    sizing: Sizing,
    sizes: TableSizes,
    /// Tenants with their entries, and the entries that belong to no tenant.
    tenants: Option<(Vec<Tenant>, TableSizes)>,
}

impl PlanArgs {
    /// Finds a placement of the program's tables on the chip, and sweeps parameters if asked to.
    /// Prints and writes the report.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        if !(self.water_level > 0.0 && self.water_level <= 1.0) {
            return Err(CommandError::Usage("--water-level is above 0 and at most 1".to_owned()));
        }
        let inputs = self.load_inputs(ui)?;
        if self.split > 1 && inputs.sizing.tenants().is_none() {
            let help = "name them in the sizing file: [tenants] tables = [...]";
            return Err(CommandError::Usage(format!("--split requires the tables that can be split; {help}")));
        }
        let compressions = {
            let _progress = ui.progress("looking for the cheapest combination of steps");
            plan::compressions(&self.compress, &inputs.pipeline, &inputs.sizes, &inputs.target, DIGEST_SEED)
                .map_err(CommandError::Usage)?
        };
        let request = PlanRequest {
            pipeline: inputs.pipeline.clone(),
            sizes: scale_to_level(&inputs.sizes, self.water_level),
            objects: inputs.sizing.objects().map_err(CommandError::refused)?,
            target: inputs.target.clone(),
            fold: self.fold,
            split: self.split,
            divided: inputs.sizing.tenants().map(|tenants| tenants.tables.clone()).unwrap_or_default(),
            objective: self.objective.into(),
            limit: Duration::from_secs(self.time_limit),
            emitted: self.emit_target(&inputs.target)?,
        };
        let mut plan = self.make_plan_with_progress(&request, &compressions, ui)?;
        if let Some((tenants, shared)) = &inputs.tenants {
            plan.report.clusters = Some(self.clusters(&request, &plan, tenants.clone(), shared, &compressions, ui));
        }
        for sweep in &self.sweep {
            let _progress = ui.progress(format!("sweeping {}", sweep.parameter));
            let mut evaluator =
                SweepEvaluator { question: &request, compressions: &compressions, path: plan.last.path.clone() };
            plan.report
                .sweeps
                .push(plan::run_sweep(&inputs.sizing, sweep, &mut evaluator).map_err(CommandError::Refused)?);
        }
        self.write_report(&plan, ui)
    }

    /// Loads the program, the target, and the sizes of the tables: from a region, or from a sizing
    /// file with the parameters of `--set`.
    fn load_inputs(&self, ui: OutputSettings) -> Result<PlanInputs, CommandError> {
        let pipeline = switch_program(self.sources.pipeline(&self.program, ui)?, ui);
        let target = load_target(&self.target)?;
        let names: Vec<String> = pipeline.tables.values().map(|table| table.preamble.name.clone()).collect();
        let mut sizing = match &self.sizes {
            Some(path) => read_sizing(path, &pipeline)?,
            None => Sizing::empty(),
        };
        for assignment in &self.set {
            let (name, value) = assignment
                .split_once('=')
                .ok_or_else(|| CommandError::Usage(format!("`{assignment}` is not NAME=VALUE")))?;
            let value = plan::parse_number(value).map_err(CommandError::Usage)?;
            sizing = sizing.with_parameter(name.trim(), value).map_err(CommandError::Usage)?;
        }
        if let Some(path) = &self.region {
            let loaded = load_region(path, &pipeline, &mut IdAssignments::default(), ui)?;
            let region_counts = region_sizes(&pipeline, &loaded.entries.entries);
            // A table without entries in the region is empty; the program's size does not apply.
            let empty_tables = || names.iter().map(|name| (name.clone(), 0));
            let sizes = empty_tables().chain(region_counts.total).collect();
            let shared = empty_tables().chain(region_counts.shared).collect();
            return Ok(PlanInputs { pipeline, target, sizing, sizes, tenants: Some((region_counts.tenants, shared)) });
        }
        let sizes = sizing.sizes().map_err(CommandError::refused)?;
        let tenants = sizing.tenants().map(|description| {
            let mut shared = sizes.clone();
            description.tables.iter().for_each(|table| {
                shared.remove(table);
            });
            (expand_tenants(description, &sizes), shared)
        });
        Ok(PlanInputs { pipeline, target, sizing, sizes, tenants })
    }

    /// Returns the architecture and the gresses of the emitted program, with --as-emitted.
    fn emit_target(&self, chip: &ChipTarget) -> Result<Option<(emit::EmitTarget, GressUse)>, CommandError> {
        if !self.as_emitted {
            return Ok(None);
        }
        let target = emit::EmitTarget::of_chip(&chip.name).ok_or_else(|| {
            CommandError::Usage(format!("there is no P4 for {}: --as-emitted is for tofino1 and tofino2", chip.name))
        })?;
        Ok(Some((target, if self.use_egress { GressUse::Both } else { GressUse::Ingress })))
    }

    /// Makes the plan while the progress shows the best objective and the bound of the search.
    fn make_plan_with_progress(
        &self,
        request: &PlanRequest,
        compressions: &[plan::Compression],
        ui: OutputSettings,
    ) -> Result<ProgramPlan, CommandError> {
        let progress = ui.progress("planning");
        let mut watch = |event: PlanProgress<'_>| match event {
            PlanProgress::Step(step) => progress.set_description(step),
            PlanProgress::Search(search) => {
                let best = search.best.map_or("nothing yet".to_owned(), |best| format!("{best:.2}"));
                let (spent, limit) = (search.elapsed.as_secs(), search.limit.as_secs());
                progress.set_description(&format!(
                    "{}: best {best}, bound {:.2}, {spent} of {limit} s",
                    search.activity, search.bound
                ));
            }
        };
        plan::make_plan(request, compressions, &mut watch).map_err(CommandError::refused)
    }

    /// Assigns tenants to clusters. Each cluster takes the entries that one switch can hold with
    /// the plan's compression and folding.
    fn clusters(
        &self,
        question: &PlanRequest,
        made: &ProgramPlan,
        tenants: Vec<Tenant>,
        shared: &TableSizes,
        compressions: &[plan::Compression],
        ui: OutputSettings,
    ) -> Clusters {
        let _progress = ui.progress("spreading tenants over clusters");
        let level = self.water_level;
        let mut tries = SweepEvaluator { question, compressions, path: self.cluster_path(question, made) };
        assign_tenants(tenants, shared, |sizes| tries.fits(&scale_to_level(sizes, level)).unwrap_or(false))
    }

    /// Returns the folding of a cluster: that of the plan, or the maximum if the program does not
    /// fit with any folding.
    fn cluster_path(&self, question: &PlanRequest, made: &ProgramPlan) -> Way {
        match (self.fold, made.last.placed.is_ok()) {
            (PipeFolding::Auto, false) => {
                Way::folded(&question.target, question.target.pipes).unwrap_or_else(|_| Way::unfolded())
            }
            _ => made.last.path.clone(),
        }
    }

    fn write_report(&self, made: &ProgramPlan, ui: OutputSettings) -> Result<(), CommandError> {
        let report = &made.report;
        if let Some(path) = &self.html {
            write_file(path, &page::page(report))?;
        }
        if let Some(path) = &self.svg {
            let plots = report.sweeps.first().map(chart::svg);
            let maps = || report.steps.last().map(|step| heat::file(&step.heat));
            write_file(path, &plots.or_else(maps).unwrap_or_default())?;
        }
        ui.result(report, || text::report(report))?;
        if report.fits { Ok(()) } else { Err(CommandError::Failed) }
    }
}

/// Scales sizes up so that they fill at most the share `level` of the capacity.
fn scale_to_level(sizes: &TableSizes, level: f64) -> TableSizes {
    sizes.iter().map(|(name, count)| (name.clone(), (*count as f64 / level).ceil() as u64)).collect()
}

/// Evaluates resource demand and placement for different table sizes.
struct SweepEvaluator<'a> {
    question: &'a PlanRequest,
    compressions: &'a [plan::Compression],
    path: Way,
}

impl SweepEvaluator<'_> {
    fn program(&self, sizes: &TableSizes) -> Result<ResourceDemand, String> {
        let mut rewritten = self.question.initial_pipeline(sizes, self.question.split);
        for compression in self.compressions {
            rewritten = rewritten.then(&compression.rewrite).map_err(|error| error.to_string())?;
        }
        self.question.resource_demand(&rewritten).map_err(|error| error.to_string())
    }
}

impl SweepModel for SweepEvaluator<'_> {
    type Error = String;

    fn utilization_percent(&mut self, sizes: &TableSizes) -> Result<(f64, f64), String> {
        Ok(plan::utilization(&self.question.target, &self.program(sizes)?))
    }

    fn fits(&mut self, sizes: &TableSizes) -> Result<bool, String> {
        let program = self.program(sizes)?;
        Ok(heuristic(&self.question.target, &program, &self.path, Objective::Fits).is_ok())
    }
}

/// Loads a target by its name, or from a file.
pub(super) fn load_target(name: &str) -> Result<ChipTarget, CommandError> {
    if let Some(target) = ChipTarget::shipped(name) {
        return Ok(target);
    }
    let path = Path::new(name);
    if path.extension().is_none() {
        let known = ChipTarget::SHIPPED.join(", ");
        return Err(CommandError::Usage(format!(
            "there is no target `{name}`; there are {known}, or give a target file"
        )));
    }
    let text = read_small(path)?;
    ChipTarget::from_toml(&text, name).map_err(CommandError::refused)
}

fn write_file(path: &Path, text: &str) -> Result<(), CommandError> {
    let failed = |error| CommandError::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
