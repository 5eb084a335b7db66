//! Which caches meet which traffic.

use super::cache::{Cache, CacheKind, Shape};
use super::capture::Pattern;
use super::chains::{self, Chains};
use super::fields::{Field, mix};
use super::flow_sizes::FlowSizes;
use super::flows::{self, Flow};
use super::frame::frame;
use super::measure::{self, Reference, Traffic};
use super::report::{PipelineReport, Report, Run, Settings, WorkloadReport};
use super::rules::Rule;
use super::schedule::{self, Window};
use super::vswitch::{self, Locality, Vswitch};
use fastrand::Rng;
use interp::{Config, Interp};
use std::collections::{BTreeSet, HashSet};

/// A locality's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, clap::ValueEnum)]
pub enum LocalityName {
    /// Flows share their parts with many others.
    High,
    /// All rules are alike.
    Low,
}

impl std::fmt::Display for LocalityName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == LocalityName::High { "high" } else { "low" })
    }
}

/// Where the sizes of flows come from.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// A distribution.
    Distribution(FlowSizes),
    /// Captures.
    Captures(Vec<Pattern>),
}

/// An evaluation that is to be made.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Pipelines by name.
    pub pipelines: Vec<String>,
    /// Localities.
    pub localities: Vec<LocalityName>,
    /// Kinds of caches.
    pub kinds: Vec<CacheKind>,
    /// Tables of caches that have several.
    pub tables: usize,
    /// Entries of all tables together.
    pub total: usize,
    /// Other numbers of tables, for sub-traversals at high locality, with the same entries together.
    pub ks: Vec<usize>,
    /// Other numbers of entries, for all kinds at high locality.
    pub sizes: Vec<usize>,
    /// Whether to run a sudden change too, at high locality.
    pub change: bool,
    /// The filter set.
    pub rules: Vec<Rule>,
    /// Sizes of flows, and times.
    pub flow_sizes: Sizes,
    /// Flows.
    pub flows: usize,
    /// Packets of a flow on average; `None`: the pipeline's.
    pub packets_per_flow: Option<f64>,
    /// How flows are drawn at high locality; `None`: as the pipeline says.
    pub high: Option<Locality>,
    /// Window of time in seconds, and gap between two packets of a flow.
    pub window: (f64, f64),
    /// Compares every so many packets with the interpreter; 0: none.
    pub compare: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Where rules and sizes come from, for the report.
    pub sources: (String, String),
}

/// Makes a cache in front of a pipeline with its entries.
pub type Factory<'a> = &'a dyn Fn(&Vswitch, &Chains, Shape) -> Result<Box<dyn Cache>, String>;

/// What an evaluation tells while it runs.
pub enum Event<'a> {
    /// Something begins; runs are counted from 0.
    Begins(String, usize),
    /// The run that is on, its packets so far and in all.
    Packets(usize, usize, usize),
    /// A run is done.
    Done(&'a Run),
}

/// Caches for a locality, with and without a change.
fn shapes(suite: &Suite, locality: LocalityName, change: bool) -> BTreeSet<Shape> {
    let main = |kind: &CacheKind| Shape::with_total(*kind, suite.tables, suite.total);
    let mut shapes: BTreeSet<Shape> = suite.kinds.iter().map(main).collect();
    if locality == LocalityName::High && !change {
        shapes.extend(suite.ks.iter().map(|k| Shape::with_total(CacheKind::SubTraversal, *k, suite.total)));
        let sized = |total: &usize| {
            let total = *total;
            suite.kinds.iter().map(move |kind| Shape::with_total(*kind, suite.tables, total))
        };
        shapes.extend(suite.sizes.iter().flat_map(sized));
    }
    shapes
}

impl Suite {
    /// What is measured: locality, whether there is a change, caches.
    fn jobs(&self) -> Vec<(LocalityName, bool, BTreeSet<Shape>)> {
        let plain = self.localities.iter().map(|locality| (*locality, false, shapes(self, *locality, false)));
        let change = self.change.then(|| (LocalityName::High, true, shapes(self, LocalityName::High, true)));
        plain.chain(change).collect()
    }

    /// How many runs it is.
    pub fn runs(&self) -> usize {
        self.pipelines.len() * self.jobs().iter().map(|job| job.2.len()).sum::<usize>()
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// An unknown pipeline, or a cache that refuses to be made.
    pub fn run(&self, factory: Factory<'_>, tell: &mut dyn FnMut(Event<'_>)) -> Result<Report, String> {
        let mut report = Report {
            settings: self.settings(),
            pipelines: Vec::new(),
            workloads: Vec::new(),
            runs: Vec::new(),
            published: Vec::new(),
        };
        for name in &self.pipelines {
            tell(Event::Begins(format!("{name}: entries"), report.runs.len()));
            let vswitch = vswitch::load(name)?;
            let chains = chains::build(&vswitch, &self.rules, self.seed)?;
            report.pipelines.push(PipelineReport {
                name: vswitch.name.to_owned(),
                tables: vswitch.tables.len(),
                traversals: vswitch.traversals.len(),
                entries: chains.entries.updates.len(),
            });
            for (locality, change, shapes) in self.jobs() {
                let (traffic, workload) = self.traffic(&vswitch, &chains, locality, change);
                report.workloads.push(workload);
                for shape in shapes {
                    tell(Event::Begins(format!("{name}, {locality} locality, {shape}"), report.runs.len()));
                    let run =
                        self.one(&vswitch, &chains, &traffic, (locality, shape, report.runs.len()), factory, tell)?;
                    tell(Event::Done(&run));
                    report.runs.push(run);
                }
            }
        }
        Ok(report)
    }

    fn one(
        &self,
        vswitch: &Vswitch,
        chains: &Chains,
        traffic: &Traffic,
        (locality, shape, run): (LocalityName, Shape, usize),
        factory: Factory<'_>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Run, String> {
        let mut cache = factory(vswitch, chains, shape)?;
        let mut reference = match self.compare {
            0 => None,
            every => Some(Reference { interp: interpreter(vswitch, chains)?, every }),
        };
        let all = traffic.arrivals.len();
        let mut watch = |packets: usize| tell(Event::Packets(run, packets, all));
        let measured = measure::run(&mut *cache, traffic, reference.as_mut(), &mut watch);
        if let Some(difference) = &measured.difference {
            return Err(format!("{} {shape} contradicts the interpreter: {difference}", vswitch.name));
        }
        Ok(Run::new(vswitch.name, &locality.to_string(), shape, measured, traffic.change))
    }

    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            rules: self.sources.0.clone(),
            rule_count: self.rules.len(),
            flow_sizes: self.sources.1.clone(),
            flows: self.flows,
            entries: self.total,
            window: self.window.0,
            gap: self.window.1,
        }
    }

    /// Traffic for a pipeline. With a change, the first half of the flows comes in the first half of the time, and other ones after it.
    pub fn traffic(
        &self,
        vswitch: &Vswitch,
        chains: &Chains,
        locality: LocalityName,
        change: bool,
    ) -> (Traffic, WorkloadReport) {
        let drawn = match (locality, self.high) {
            (LocalityName::High, None) => vswitch.traffic.high,
            (LocalityName::High, Some(high)) => high,
            (LocalityName::Low, _) => vswitch.traffic.low,
        };
        let draw =
            |workload: u64| flows::draw(vswitch, &chains.networks, &self.rules, self.flows, drawn, self.seed, workload);
        let mut all = draw(0);
        let mut arrivals = self.arrivals(all.len(), vswitch, 0);
        let at = (self.window.0 * 1e9) as u64;
        if change {
            let after = draw(1);
            let later = self.arrivals(after.len(), vswitch, 1);
            arrivals = schedule::change(arrivals, later, at, all.len() as u32);
            all.extend(after);
        }
        let workload = WorkloadReport {
            pipeline: vswitch.name.to_owned(),
            locality: locality.to_string(),
            drawn,
            changes: change,
            flows: all.len(),
            packets: arrivals.len(),
            flows_per_part: flows_per_part(chains, &all),
        };
        let frames = all.iter().map(|flow| (flow.values[Field::InPort.index()] as u32, frame(flow))).collect();
        (Traffic { frames, arrivals, change: change.then_some(at) }, workload)
    }

    fn arrivals(&self, flows: usize, vswitch: &Vswitch, workload: u64) -> Vec<schedule::Arrival> {
        let mean = self.packets_per_flow.unwrap_or(vswitch.traffic.packets_per_flow);
        let window = Window { seconds: self.window.0, gap: self.window.1, mean };
        let mut rng = Rng::with_seed(mix(self.seed, &[20, workload]));
        match &self.flow_sizes {
            Sizes::Distribution(sizes) => schedule::from_sizes(flows, sizes, window, &mut rng),
            Sizes::Captures(patterns) => schedule::from_captures(flows, patterns, window, &mut rng),
        }
    }
}

/// An interpreter with all entries.
///
/// # Errors
/// If it refuses the program or an entry: a contradiction within the carried files.
pub fn interpreter(vswitch: &Vswitch, chains: &Chains) -> Result<Interp, String> {
    let mut interp = Interp::new(vswitch.pipeline.clone(), Config::default()).map_err(|error| error.to_string())?;
    interp.write(&chains.entries).map_err(|error| error.to_string())?;
    Ok(interp)
}

/// Flows for each different part, over all networks and tables that decide on something.
fn flows_per_part(chains: &Chains, flows: &[Flow]) -> f64 {
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
