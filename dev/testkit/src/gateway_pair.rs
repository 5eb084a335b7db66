//! The gateway on the interpreter and in native code, with one region that can change and one clock.

use interp::{Config, Interp};
use jit::Jit;
use packet::Engine;
use region::{GatewayEntries, IdAssignments};
use std::fmt::Debug;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// A gateway on both engines.
pub struct GatewayPair {
    /// The program.
    pub pipeline: Arc<ir::Pipeline>,
    /// The oracle.
    pub interp: Interp,
    /// Native code.
    pub native: Jit,
    entries: GatewayEntries,
    numbers: IdAssignments,
    now: u64,
}

impl GatewayPair {
    /// Creates a gateway with a region file's text.
    ///
    /// # Panics
    /// If the program falls back to the interpreter, or the region is wrong.
    pub fn new(region: &str) -> GatewayPair {
        GatewayPair::of(crate::gateway::pipeline().expect("the gateway compiles"), region)
    }

    /// As [`GatewayPair::new`], with room for `size` entries in a table.
    ///
    /// # Panics
    /// As [`GatewayPair::new`], or if the program has no such table.
    pub fn with_table_size(table: &str, size: u64, region: &str) -> GatewayPair {
        let mut pipeline = ir::Pipeline::clone(&*crate::gateway::pipeline().expect("the gateway compiles"));
        let table = entries::find_table(&pipeline, table).expect("a table");
        pipeline.tables[table].size = Some(size);
        GatewayPair::of(Arc::new(pipeline), region)
    }

    fn of(pipeline: Arc<ir::Pipeline>, region: &str) -> GatewayPair {
        let interp = Interp::new(pipeline.clone(), Config::default()).expect("it loads");
        let native = crate::native::engine(&pipeline).expect("it loads");
        assert_eq!(native.fallback_reason(), None);
        let (entries, numbers) = Default::default();
        let mut pair = GatewayPair { pipeline, interp, native, entries, numbers, now: SECOND };
        pair.change_region(region);
        pair
    }

    /// Changes the region.
    ///
    /// # Panics
    /// If it is wrong, or an engine refuses its entries.
    pub fn change_region(&mut self, text: &str) {
        let region = region::parse("region.yaml", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        let new = region::entries(&region, "region.yaml", &self.pipeline, &mut self.numbers).expect("entries");
        let batch = region::diff(std::mem::replace(&mut self.entries, new.clone()), new);
        self.interp.write(&batch).expect("entries are taken");
        self.native.write(&batch).expect("entries are taken");
    }

    /// Lets time pass. The clock of idle times advances in steps of `step` seconds, as in a node.
    pub fn wait(&mut self, seconds: u64, step: u64) {
        for _ in 0..seconds.div_ceil(step) {
            self.now += step * SECOND;
            self.interp.advance_time(self.now);
            self.native.advance_time(self.now);
        }
    }

    /// Runs packets on both engines at the present time, and returns their outcome. `what` is shown if
    /// the outcomes differ.
    ///
    /// # Panics
    /// If they differ.
    #[track_caller]
    pub fn run<T: PartialEq + Debug>(&mut self, what: &dyn Debug, process: impl Fn(&mut dyn Engine, u64) -> T) -> T {
        let (expected, found) = (process(&mut self.interp, self.now), process(&mut self.native, self.now));
        assert_eq!(expected, found, "native code, for {what:02x?}, with {:?}", self.refused_additions());
        found
    }

    /// Returns what refused additions to tables in native code, by reason.
    fn refused_additions(&self) -> Vec<(&'static str, u64)> {
        let tables = self.native.flow_tables().expect("packets write tables");
        let counts = tables.ids().filter_map(|id| Some(tables.info(id)?.counts.refused));
        counts.flatten().filter(|(_, count)| *count != 0).collect()
    }
}
