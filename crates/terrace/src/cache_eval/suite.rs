//! Combinations of caches and traffic that an evaluation runs.

use super::cache::{Cache, CacheKind, CacheSpec};
use super::capture::ArrivalPattern;
use super::chains::{self, RuleChains};
use super::fields::{Field, mix};
use super::flow_sizes::FlowSizes;
use super::flows::{self, Flow};
use super::frame::frame;
use super::measure::{self, Reference, Traffic};
use super::report::{CacheRun, EvaluationReport, EvaluationSettings, PipelineReport, WorkloadReport};
use super::rules::Rule;
use super::schedule::{self, Window};
use super::vswitch::{self, Locality, Vswitch};
use fastrand::Rng;
use interp::{Config, Interp};
use std::collections::{BTreeSet, HashSet};

/// Named locality.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, clap::ValueEnum)]
pub enum LocalityName {
    /// Flows share their parts with many other flows.
    High,
    /// All rules are drawn with equal probability.
    Low,
}

impl std::fmt::Display for LocalityName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == LocalityName::High { "high" } else { "low" })
    }
}

/// Source of the flow sizes.
#[derive(Clone, Debug)]
pub enum FlowSizeSource {
    /// A size distribution.
    Distribution(FlowSizes),
    /// Arrival patterns of captures.
    Captures(Vec<ArrivalPattern>),
}

/// Parameters of an evaluation.
#[derive(Clone, Debug)]
pub struct EvaluationSuite {
    /// Names of the pipelines.
    pub pipelines: Vec<String>,
    /// Localities to run.
    pub localities: Vec<LocalityName>,
    /// Cache kinds to run.
    pub kinds: Vec<CacheKind>,
    /// Number of tables of caches with several tables.
    pub tables: usize,
    /// Total entries over all tables of a cache.
    pub total_entries: usize,
    /// Additional numbers of tables for sub-traversal caches at high locality, with the same total
    /// entries.
    pub swept_table_counts: Vec<usize>,
    /// Additional numbers of total entries, for all kinds at high locality.
    pub swept_entries: Vec<usize>,
    /// Whether to also run a sudden workload change at high locality.
    pub change: bool,
    /// Filter set.
    pub rules: Vec<Rule>,
    /// Source of flow sizes and arrival times.
    pub flow_sizes: FlowSizeSource,
    /// Number of flows.
    pub flows: usize,
    /// Average number of packets of a flow. `None`: the pipeline's default.
    pub packets_per_flow: Option<f64>,
    /// Draw parameters at high locality. `None`: the pipeline's default.
    pub high_locality: Option<Locality>,
    /// Length of the window in which flows start, and average time between two packets of a flow,
    /// both in seconds.
    pub window_and_gap: (f64, f64),
    /// Compares one of `compare_interval` packets with the interpreter; 0: none.
    pub compare_interval: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Sources of the rules and of the flow sizes, for the report.
    pub source_names: (String, String),
}

/// Function that builds a cache for a pipeline with its entries.
pub type Factory<'a> = &'a dyn Fn(&Vswitch, &RuleChains, CacheSpec) -> Result<Box<dyn Cache>, String>;

/// Progress event of an evaluation.
pub enum EvaluationEvent<'a> {
    /// A run or a preparation starts: description, and index of the run from 0.
    Begins(String, usize),
    /// Progress of the current run: its index, processed packets, total packets.
    Packets(usize, usize, usize),
    /// A run is finished.
    Done(&'a CacheRun),
}

/// Returns the caches to run for a locality, with or without a workload change.
fn cache_specs(suite: &EvaluationSuite, locality: LocalityName, change: bool) -> BTreeSet<CacheSpec> {
    let main = |kind: &CacheKind| CacheSpec::with_total(*kind, suite.tables, suite.total_entries);
    let mut shapes: BTreeSet<CacheSpec> = suite.kinds.iter().map(main).collect();
    if locality == LocalityName::High && !change {
        shapes.extend(
            suite
                .swept_table_counts
                .iter()
                .map(|k| CacheSpec::with_total(CacheKind::SubTraversal, *k, suite.total_entries)),
        );
        let sized = |total: &usize| {
            let total = *total;
            suite.kinds.iter().map(move |kind| CacheSpec::with_total(*kind, suite.tables, total))
        };
        shapes.extend(suite.swept_entries.iter().flat_map(sized));
    }
    shapes
}

impl EvaluationSuite {
    /// Lists the runs: locality, whether the workload changes, caches.
    fn run_groups(&self) -> Vec<(LocalityName, bool, BTreeSet<CacheSpec>)> {
        let plain = self.localities.iter().map(|locality| (*locality, false, cache_specs(self, *locality, false)));
        let change = self.change.then(|| (LocalityName::High, true, cache_specs(self, LocalityName::High, true)));
        plain.chain(change).collect()
    }

    /// Returns the number of runs.
    pub fn run_count(&self) -> usize {
        self.pipelines.len() * self.run_groups().iter().map(|job| job.2.len()).sum::<usize>()
    }

    /// Executes all runs.
    ///
    /// # Errors
    /// If a pipeline is unknown, or a cache cannot be built.
    /// `factory` builds a cache for a pipeline; `tell` is called with the progress.
    pub fn run(
        &self,
        factory: Factory<'_>,
        tell: &mut dyn FnMut(EvaluationEvent<'_>),
    ) -> Result<EvaluationReport, String> {
        let mut report = EvaluationReport {
            settings: self.settings(),
            pipelines: Vec::new(),
            workloads: Vec::new(),
            runs: Vec::new(),
            published: Vec::new(),
        };
        for name in &self.pipelines {
            tell(EvaluationEvent::Begins(format!("{name}: entries"), report.runs.len()));
            let vswitch = vswitch::load(name)?;
            let chains = chains::build_chains(&vswitch, &self.rules, self.seed)?;
            report.pipelines.push(PipelineReport {
                name: vswitch.name.to_owned(),
                tables: vswitch.tables.len(),
                traversals: vswitch.traversals.len(),
                entries: chains.entries.updates.len(),
            });
            for (locality, change, shapes) in self.run_groups() {
                let (traffic, workload) = self.traffic(&vswitch, &chains, locality, change);
                report.workloads.push(workload);
                for shape in shapes {
                    tell(EvaluationEvent::Begins(format!("{name}, {locality} locality, {shape}"), report.runs.len()));
                    let run = self.run_pipeline(
                        &vswitch,
                        &chains,
                        &traffic,
                        (locality, shape, report.runs.len()),
                        factory,
                        tell,
                    )?;
                    tell(EvaluationEvent::Done(&run));
                    report.runs.push(run);
                }
            }
        }
        Ok(report)
    }

    /// Runs traffic through one cache, and through the interpreter for each packet of the
    /// comparison interval. `run` is the number of the run. A packet that the cache treats
    /// otherwise is an error.
    fn run_pipeline(
        &self,
        vswitch: &Vswitch,
        chains: &RuleChains,
        traffic: &Traffic,
        (locality, shape, run): (LocalityName, CacheSpec, usize),
        factory: Factory<'_>,
        tell: &mut dyn FnMut(EvaluationEvent<'_>),
    ) -> Result<CacheRun, String> {
        let mut cache = factory(vswitch, chains, shape)?;
        let mut reference = match self.compare_interval {
            0 => None,
            every => Some(Reference { interp: interpreter(vswitch, chains)?, every }),
        };
        let packet_count = traffic.arrivals.len();
        let mut watch = |packets: usize| tell(EvaluationEvent::Packets(run, packets, packet_count));
        let measured = measure::run_traffic(&mut *cache, traffic, reference.as_mut(), &mut watch);
        if let Some(difference) = &measured.difference {
            return Err(format!("{} {shape} contradicts the interpreter: {difference}", vswitch.name));
        }
        Ok(CacheRun::new(vswitch.name, &locality.to_string(), shape, measured, traffic.change))
    }

    fn settings(&self) -> EvaluationSettings {
        EvaluationSettings {
            seed: self.seed,
            rules: self.source_names.0.clone(),
            rule_count: self.rules.len(),
            flow_sizes: self.source_names.1.clone(),
            flows: self.flows,
            entries: self.total_entries,
            window: self.window_and_gap.0,
            gap: self.window_and_gap.1,
        }
    }

    /// Builds the traffic for a pipeline: its flows, their packets in order of arrival, and a
    /// description. With a workload change (`change`), the first half of the flows arrives in the
    /// first half of the time, and different flows after it.
    pub fn traffic(
        &self,
        vswitch: &Vswitch,
        chains: &RuleChains,
        locality: LocalityName,
        change: bool,
    ) -> (Traffic, WorkloadReport) {
        let flow_locality = match (locality, self.high_locality) {
            (LocalityName::High, None) => vswitch.traffic.high,
            (LocalityName::High, Some(high)) => high,
            (LocalityName::Low, _) => vswitch.traffic.low,
        };
        let draw = |workload: u64| {
            flows::draw(vswitch, &chains.networks, &self.rules, self.flows, flow_locality, self.seed, workload)
        };
        let mut flows = draw(0);
        let mut arrivals = self.arrivals(flows.len(), vswitch, 0);
        let change_ns = (self.window_and_gap.0 * 1e9) as u64;
        if change {
            let new_flows = draw(1);
            let new_arrivals = self.arrivals(new_flows.len(), vswitch, 1);
            arrivals = schedule::join_schedules(arrivals, new_arrivals, change_ns, flows.len() as u32);
            flows.extend(new_flows);
        }
        let workload = WorkloadReport {
            pipeline: vswitch.name.to_owned(),
            locality: locality.to_string(),
            drawn: flow_locality,
            changes: change,
            flows: flows.len(),
            packets: arrivals.len(),
            flows_per_part: flows_per_part(chains, &flows),
        };
        let frames = flows.iter().map(|flow| (flow.values[Field::InPort.index()] as u32, frame(flow))).collect();
        (Traffic { frames, arrivals, change: change.then_some(change_ns) }, workload)
    }

    fn arrivals(&self, flows: usize, vswitch: &Vswitch, workload: u64) -> Vec<schedule::Arrival> {
        let mean = self.packets_per_flow.unwrap_or(vswitch.traffic.packets_per_flow);
        let window = Window { seconds: self.window_and_gap.0, gap: self.window_and_gap.1, mean };
        let mut rng = Rng::with_seed(mix(self.seed, &[20, workload]));
        match &self.flow_sizes {
            FlowSizeSource::Distribution(sizes) => schedule::from_sizes(flows, sizes, window, &mut rng),
            FlowSizeSource::Captures(patterns) => schedule::from_captures(flows, patterns, window, &mut rng),
        }
    }
}

/// Builds an interpreter with all entries.
///
/// # Errors
/// If it refuses the program or an entry. The built-in files then contradict each other.
pub fn interpreter(vswitch: &Vswitch, chains: &RuleChains) -> Result<Interp, String> {
    let mut interp = Interp::new(vswitch.pipeline.clone(), Config::default()).map_err(|error| error.to_string())?;
    interp.write(&chains.entries).map_err(|error| error.to_string())?;
    Ok(interp)
}

/// Returns the number of flows per distinct part, averaged over all networks and deciding tables.
fn flows_per_part(chains: &RuleChains, flows: &[Flow]) -> f64 {
    let mut parts = HashSet::new();
    let mut all = 0_u64;
    for flow in flows {
        let network = &chains.networks[flow.network];
        let decided = network.parts.iter().take(network.parts.len().saturating_sub(1)).enumerate();
        for (at, fields) in decided.filter(|(_, fields)| !fields.is_empty()) {
            let values: Vec<u128> = fields.iter().map(|field| flow.values[field.index()]).collect();
            parts.insert((flow.network, at, values));
            all += 1;
        }
    }
    all as f64 / parts.len().max(1) as f64
}
