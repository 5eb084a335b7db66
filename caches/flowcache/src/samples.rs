//! [`Samples`]: through which units the packet goes that is in the cache, segment by segment, so that what it shares with others can be measured ([`crate::sharing`]).

use crate::sharing::{Costs, Sharing, Unit};

/// See the module.
#[derive(Clone, Debug)]
pub struct Samples {
    sharing: Sharing,
    /// By table and place: the units that a segment stands for.
    kept: Vec<Vec<Box<[Unit]>>>,
    /// Where the segments are that the packet has had so far; `None`: it left one in the middle, so that nobody knows its units.
    had: Option<Vec<(usize, u32)>>,
    /// The packet is one of those that are measured.
    sample: bool,
}

impl Samples {
    /// For a cache of so many tables one behind the other, through which packets may go so many times.
    pub fn new(tables: usize, passes: usize) -> Samples {
        Samples {
            sharing: Sharing::new(tables, tables * passes),
            kept: vec![Vec::new(); tables],
            had: Some(Vec::new()),
            sample: false,
        }
    }

    /// Little is enough to decide by: for tests.
    pub fn be_eager(&mut self) {
        self.sharing.be_eager();
    }

    /// A packet comes.
    #[inline]
    pub fn begin(&mut self) {
        self.had.get_or_insert_default().clear();
        self.sample = self.sharing.is_sample();
    }

    /// It has done all that a segment says.
    #[inline]
    pub fn had(&mut self, table: usize, place: u32) {
        if let Some(had) = &mut self.had {
            had.push((table, place));
        }
    }

    /// It has left a segment in the middle.
    pub fn left(&mut self) {
        self.had = None;
    }

    /// All of its way was there.
    #[inline]
    pub fn hit(&mut self) {
        if self.sample
            && let Some(units) = self.so_far()
        {
            self.sharing.note(&units);
        }
    }

    /// A segment is kept, which stands for these units.
    pub fn keep(&mut self, table: usize, place: u32, units: &[Unit]) {
        let kept = &mut self.kept[table];
        if kept.len() <= place as usize {
            kept.resize(place as usize + 1, Box::default());
        }
        kept[place as usize] = units.into();
    }

    /// The units of a segment.
    pub fn of(&self, table: usize, place: u32) -> &[Unit] {
        self.kept.get(table).and_then(|kept| kept.get(place as usize)).map_or(&[], |units| units)
    }

    /// The units that the packet has gone through.
    pub fn so_far(&self) -> Option<Vec<Unit>> {
        let had = self.had.as_ref()?;
        Some(had.iter().flat_map(|(table, place)| self.of(*table, *place)).copied().collect())
    }

    /// The packet went on through these units, which were not there, to the end of what can be kept; `before` it had gone through those. What is known of its way.
    pub fn missed(&mut self, before: &[Unit], units: &[Unit]) -> Option<&Costs> {
        let all = [before, units].concat();
        if self.sample {
            self.sharing.note(&all);
        }
        self.sharing.costs(&all)
    }

    /// What is known of the way through these units.
    pub fn known(&self, units: &[Unit]) -> Option<&Costs> {
        self.sharing.costs(units)
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        let of = |units: &[Unit]| size_of_val(units) + size_of::<Box<[Unit]>>();
        self.kept.iter().flatten().map(|units| of(units)).sum::<usize>() + self.sharing.memory()
    }

    /// All segments are gone.
    pub fn clear(&mut self) {
        self.kept.iter_mut().for_each(Vec::clear);
    }
}
