//! [`MissRegion`]: stages that share state, and that only packets reach that missed a table.
//!
//! Such stages do not make all packets run one by one. The worker runs packets up to a miss, then
//! the packet that missed through the stages of the region alone, and then the next packets.

use fixedbitset::FixedBitSet;
use ir::TableId;
use std::collections::{BTreeMap, BTreeSet};

/// The stages behind the misses of a stage that follows a lookup in a table that packets write.
#[derive(Clone, Debug)]
pub struct MissPath {
    /// The stage behind the lookup.
    pub entry: usize,
    /// The table that it looks up.
    pub table: TableId,
    /// All stages that only packets reach that missed there.
    pub stages: FixedBitSet,
    /// The stages among these that look up the same table with the same key.
    pub same_key_stages: FixedBitSet,
}

/// The paths behind misses of a program.
#[derive(Clone, Debug)]
pub struct MissPaths {
    /// The paths; none is empty.
    pub paths: Vec<MissPath>,
    /// The successors of each stage of the program.
    pub next_stages: Vec<BTreeSet<usize>>,
}

/// Stages that packets pass in order together with a stage from which they are reached by misses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissRegion {
    /// The stage from which packets enter.
    pub entry: usize,
    /// The stages, in topological order, without `entry`.
    pub stages: Vec<usize>,
    /// Whether only packets with the same key depend on each other. Then packets with different keys pass
    /// the region together.
    pub is_keyed: bool,
}

/// State that several stages share.
pub struct SharedState<'a> {
    /// The stages.
    pub users: &'a BTreeSet<usize>,
    /// The table, if it is the entries of one, each of which only packets with its key use.
    pub entries_of: Option<TableId>,
}

/// Chooses regions so that each of these states is used in only one of them. `None`: there are none, so
/// packets have to run one by one.
pub fn choose_regions(states: &[SharedState<'_>], found: &MissPaths) -> Option<Vec<MissRegion>> {
    let paths = &found.paths;
    let mut states_by_path: BTreeMap<usize, Vec<&SharedState<'_>>> = BTreeMap::new();
    for state in states {
        let covers =
            |path: &MissPath| state.users.iter().all(|stage| *stage == path.entry || path.stages.contains(*stage));
        let covering = (0..paths.len()).filter(|path| covers(&paths[*path]));
        let smallest = covering.min_by_key(|path| paths[*path].stages.count_ones(..))?;
        states_by_path.entry(smallest).or_default().push(state);
    }
    let regions: Vec<MissRegion> =
        states_by_path.into_iter().map(|(path, states)| region_of(&paths[path], &found.next_stages, &states)).collect();
    let mut taken = BTreeSet::new();
    let is_disjoint =
        regions.iter().flat_map(|region| region.stages.iter().chain([&region.entry])).all(|stage| taken.insert(*stage));
    is_disjoint.then_some(regions)
}

/// Returns the region of a path with all users of the states, and all stages before them.
fn region_of(path: &MissPath, next_stages: &[BTreeSet<usize>], states: &[&SharedState<'_>]) -> MissRegion {
    let users: BTreeSet<usize> = states.iter().flat_map(|state| state.users).copied().collect();
    let mut stages = BTreeSet::new();
    // Stages are sorted topologically, so the successors of each are decided before it.
    for stage in path.stages.ones().collect::<Vec<_>>().into_iter().rev() {
        if users.contains(&stage) || next_stages[stage].iter().any(|next| stages.contains(next)) {
            stages.insert(stage);
        }
    }
    let is_by_key = |state: &&SharedState<'_>| {
        state.entries_of == Some(path.table)
            && state.users.iter().all(|stage| *stage == path.entry || path.same_key_stages.contains(*stage))
    };
    MissRegion { entry: path.entry, is_keyed: states.iter().all(is_by_key), stages: stages.into_iter().collect() }
}
