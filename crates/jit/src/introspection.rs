//! Introspection: properties of the generated code, and how packets passed it.

use crate::engine::{Execution, Jit};
use crate::plan::stages::{StageEntry, StageInfo};
use crate::program::CompiledProgram;
use crate::vector_refusal::VectorRefusal;
use ir::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Jit {
    /// Returns the number of lookups after the first that are cloned for packets of the hot path
    /// ([`Jit::hot_path_bytes`]).
    pub fn hot_path_lookup_count(&self) -> usize {
        self.count_stages(|stage| stage.is_hot_path_copy)
    }

    /// Returns the tables of the stages that are cloned for packets of the hot path, in the order of the
    /// stages.
    pub fn hot_path_tables(&self) -> Vec<TableId> {
        let stages = self.program().into_iter().flat_map(|program| &program.code.stages);
        stages.filter(|stage| stage.is_hot_path_copy).filter_map(|stage| stage.table).collect()
    }

    /// Returns the number of lookups after the hot path that a stage makes in place while the table
    /// has few entries.
    pub fn in_place_lookup_count(&self) -> usize {
        self.program().map_or(0, |program| program.code.in_place_lookups)
    }

    /// Returns the number of lookups after the hot path that are paired with an independent earlier
    /// lookup.
    pub fn paired_lookup_count(&self) -> usize {
        self.count_stages(|stage| stage.paired_table.is_some())
    }

    /// Returns the number of stages that start where paths of several stages meet.
    pub fn join_stage_count(&self) -> usize {
        self.count_stages(|stage| matches!(stage.start, StageEntry::Join(_)))
    }

    /// Returns whether packets run one by one, because several stages share state whose order packets
    /// observe.
    pub fn runs_packets_one_by_one(&self) -> bool {
        self.program().is_some_and(|program| program.code.order.is_serial)
    }

    /// Returns the number of regions that packets pass that missed a table that packets write: those
    /// that packets with different keys pass together, and those that packets pass alone.
    pub fn miss_region_counts(&self) -> [usize; 2] {
        let Some(program) = self.program() else { return [0; 2] };
        let regions = &program.code.order.regions;
        let keyed = regions.iter().filter(|region| region.is_keyed).count();
        [keyed, regions.len() - keyed]
    }

    /// Returns the number of stages that have vector code on this machine.
    pub fn vector_stage_count(&self) -> usize {
        self.program().map_or(0, |program| program.code.native.lanes().iter().flatten().count())
    }

    /// Returns why the program has no vector code; `None` if it has some, or if the interpreter runs
    /// it ([`Jit::fallback_reason`]).
    pub fn vector_refusal(&self) -> Option<VectorRefusal> {
        self.program()?.code.vector_refusal
    }

    /// Returns the packets of all workers that took the code for one packet because the program has no
    /// other, by the name of the reason.
    pub fn vector_refusal_counts(&self) -> BTreeMap<&'static str, u64> {
        let Some(refusal) = self.vector_refusal() else { return BTreeMap::new() };
        let stages = self.stats().stages;
        BTreeMap::from([(
            refusal.name(),
            stages.iter().filter(|stage| stage.is_entry).map(|stage| stage.packets).sum(),
        )])
    }

    /// Sets the smallest batch for the vector path, whether or not it is faster; for tests.
    /// [`usize::MAX`] turns it off. By default, batches of 8 packets or more use the path that was
    /// faster recently.
    pub fn set_min_vector_batch(&mut self, packets: usize) {
        if let Execution::Native { worker, unrecorded: quiet, .. } = &mut self.execution {
            for worker in [Some(worker), quiet.as_mut()].into_iter().flatten() {
                worker.min_vector_batch = packets;
                worker.path_choice = None;
            }
        }
    }

    /// Returns two counts of this worker: packets that passed a stage on the vector path (once per
    /// stage), and those of them that diverged to scalar code.
    pub fn vector_packet_counts(&self) -> [u64; 2] {
        let Execution::Native { worker, unrecorded: quiet, .. } = &self.execution else { return [0; 2] };
        let both = [Some(worker), quiet.as_ref()];
        both.into_iter()
            .flatten()
            .map(|worker| worker.vector_packet_counts())
            .fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    }

    fn count_stages(&self, which: impl Fn(&StageInfo) -> bool) -> usize {
        self.program().map_or(0, |program| program.code.stages.iter().filter(|stage| which(stage)).count())
    }

    /// Returns the compiled program; `None` if the interpreter runs it.
    fn program(&self) -> Option<&CompiledProgram> {
        match &self.execution {
            Execution::Native { shared, .. } => Some(&shared.program),
            Execution::Interpreted { .. } => None,
        }
    }

    /// Returns the minimum length in bytes of packets that take the hot path, the code specialised
    /// for the most common path to the first lookup; `None` if there is none.
    pub fn hot_path_bytes(&self) -> Option<u32> {
        self.program()?.code.hot_path_bytes
    }

    /// Returns whether both engines run the same code in memory, because they were made for the same
    /// program with the same settings.
    pub fn shares_code_with(&self, other: &Jit) -> bool {
        let [own, others] = [self, other].map(|jit| jit.program().map(|program| &program.code));
        own.zip(others).is_some_and(|(own, others)| Arc::ptr_eq(own, others))
    }

    /// Returns the distance between the frames of packets in bytes; 0 if there is no native code.
    pub fn frame_bytes(&self) -> usize {
        self.program().map_or(0, |program| program.code.frame_stride as usize)
    }

    /// Returns the length of the native code in bytes; 0 if there is none.
    pub fn code_bytes(&self) -> usize {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let programs = [Some(&shared.program), shared.unrecorded.as_ref()];
                programs.into_iter().flatten().map(|program| program.code.native.bytes()).sum()
            }
            Execution::Interpreted { .. } => 0,
        }
    }
}
