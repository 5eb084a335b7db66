//! Tables as the engine keeps them: maps and linear scans of its own, on purpose nothing of the lookups in the crate `tables`.

mod asked;
mod exact;
mod prefix;
mod scan;
mod shape;

use crate::meter::Meter;
use crate::program::Reg;
use asked::Asked;
use exact::WordMap;
use ir::{Arch, Entity, MatchKind, Pipeline, TableId};
use prefix::Prefixes;
use scan::Scan;
use shape::Shape;
use tables::fast::soon;
use tables::{CounterData, Entry, KeyLayout, PackedAction, PackedKey, State};

/// What is done on a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The action at this position in the table's list, with the arguments of the entry.
    Arm(u32),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

/// An entry with what changes as packets hit it.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The entry; `None` for a slot that is free.
    pub entry: Option<Entry>,
    /// What it does.
    pub target: Target,
    /// Its direct counter.
    pub counter: CounterData,
    /// Its direct meter, if configured.
    pub meter: Option<Box<Meter>>,
    /// When its idle time began, in nanoseconds.
    pub active: u64,
    /// Its idle time in nanoseconds; 0 is none.
    pub timeout: u64,
    /// When the engine will look at the idle time next.
    pub queued: Option<u64>,
    /// Tells it from entries that had the slot before.
    pub generation: u32,
}

impl Slot {
    /// A slot that is free.
    pub fn free() -> Slot {
        Slot {
            entry: None,
            target: Target::Arm(0),
            counter: CounterData::default(),
            meter: None,
            active: 0,
            timeout: 0,
            queued: None,
            generation: 0,
        }
    }

    /// An entry moves in. `now` begins its idle time.
    pub fn begin(&mut self, entry: &Entry, counter: CounterData, now: u64) {
        self.entry = Some(entry.clone());
        (self.counter, self.active, self.timeout) = (counter, now, entry.idle_timeout_ns());
        self.meter = entry.meter().map(|config| Box::new(Meter::new(*config, now)));
        self.generation = self.generation.wrapping_add(1);
        self.queued = None;
    }

    /// The entry is replaced by one with the same key. Its counter goes on unless it is given; its meter does if the
    /// configuration is the same.
    pub fn replace(&mut self, old: &Entry, new: &Entry, counter: Option<CounterData>, now: u64) {
        self.entry = Some(new.clone());
        self.counter = counter.unwrap_or(self.counter);
        if old.idle_timeout_ns() != new.idle_timeout_ns() {
            (self.timeout, self.active) = (new.idle_timeout_ns(), now);
        }
        if old.meter() != new.meter() {
            self.meter = new.meter().map(|config| Box::new(Meter::new(*config, now)));
        }
    }

    /// The entry moves out.
    pub fn end(&mut self) {
        (self.entry, self.meter, self.timeout) = (None, None, 0);
        self.generation = self.generation.wrapping_add(1);
    }
}

#[derive(Clone, Debug)]
enum Strategy {
    /// No keys: nothing is ever hit.
    Never,
    Exact(WordMap),
    Prefixes(Prefixes),
    Scan(Scan),
    /// An explainer's: no entry is held but those that packets have hit.
    Asked(Asked),
}

/// Keys that are looked up together.
#[derive(Clone, Debug, Default)]
struct Many {
    /// Those that differ from the one before.
    keys: Vec<u64>,
    /// How many these are.
    different: usize,
    hashes: Vec<u64>,
    /// What they find.
    numbers: Vec<Option<u32>>,
    /// For each packet, which key it has.
    which: Vec<u32>,
}

impl Many {
    fn clear(&mut self) {
        self.keys.clear();
        self.hashes.clear();
        self.numbers.clear();
        self.which.clear();
        self.different = 0;
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its places of keys.
    pub shape: Shape,
    layout: KeyLayout,
    strategy: Strategy,
    /// Entries by number.
    pub slots: Vec<Slot>,
    free: Vec<u32>,
    /// Arguments of the entries, `stride` words each.
    args: Vec<u64>,
    stride: usize,
    /// Position of each action in the table's list.
    positions: Vec<Option<u32>>,
    /// What the default action is.
    pub default: Target,
    /// Its arguments.
    pub default_args: Box<[u64]>,
    /// For each action of the table's list: packets without a hit, packets with one.
    pub applied: Vec<[CounterData; 2]>,
    /// The last key that was looked up.
    pub key: Vec<u64>,
    /// Keys that are looked up together.
    many: Many,
    /// Whether a hit restarts the idle time.
    pub restart_on_hit: bool,
    /// v1model: a hit counts and meters by itself.
    pub count_on_hit: bool,
    /// As `count_on_hit`.
    pub meter_on_hit: bool,
    /// Whether idle entries are deleted, or only told of.
    pub auto_delete: bool,
}

impl Table {
    /// An empty table.
    pub fn new(pipeline: &Pipeline, id: TableId) -> Table {
        let declared = &pipeline.tables[id];
        let shape = Shape::new(&declared.keys);
        let others: Vec<&shape::Place> = shape.places.iter().filter(|p| p.kind != MatchKind::Exact).collect();
        let strategy = match others[..] {
            _ if shape.places.is_empty() => Strategy::Never,
            [] => Strategy::Exact(WordMap::new(shape.total)),
            [only] if only.kind == MatchKind::Lpm && only.width <= 1024 => {
                Strategy::Prefixes(Prefixes::new(&shape, only))
            }
            _ => Strategy::Scan(Scan::new(&shape)),
        };
        let mut positions = vec![None; pipeline.actions.len()];
        for (position, listed) in declared.actions.iter().enumerate() {
            if let Some(place) = positions.get_mut(listed.action.index()) {
                *place = Some(position as u32);
            }
        }
        let words = |action: ir::ActionId| {
            tables::action_layout(pipeline, action).last().map_or(0, |field| field.offset + field.words)
        };
        let listed = declared.actions.iter().filter(|a| pipeline.actions.get(a.action).is_some());
        let stride = listed.map(|a| words(a.action)).max().unwrap_or(0);
        let v1model = pipeline.arch == Arch::V1Model;
        let property =
            |name: &str, value: &str| declared.properties.iter().any(|(n, text)| n == name && text.contains(value));
        Table {
            key: vec![0; shape.total],
            many: Many::default(),
            layout: KeyLayout::new(&declared.keys),
            shape,
            strategy,
            slots: Vec::new(),
            free: Vec::new(),
            args: Vec::new(),
            stride,
            positions,
            applied: vec![[CounterData::default(); 2]; declared.actions.len()],
            default: Target::Arm(0),
            default_args: Box::default(),
            restart_on_hit: true,
            count_on_hit: v1model && declared.direct_counter.is_some(),
            meter_on_hit: v1model && declared.direct_meter.is_some(),
            auto_delete: property("pna_idle_timeout", "AUTO_DELETE")
                || property("idle_timeout_with_auto_delete", "true"),
        }
    }

    /// A table that holds no entries: [`Table::ask`] looks them up in the control plane's state.
    pub fn asking(pipeline: &Pipeline, id: TableId) -> Table {
        let table = Table::new(pipeline, id);
        let strategy = match table.shape.places.is_empty() {
            true => Strategy::Never,
            false => Strategy::Asked(Asked::new(&table.shape, &table.layout)),
        };
        Table { strategy, ..table }
    }

    /// Forgets the entries that [`Table::ask`] has found.
    pub fn forget(&mut self) {
        if let Strategy::Asked(asked) = &mut self.strategy {
            asked.forget();
        }
        self.slots.clear();
        self.args.clear();
        self.free.clear();
    }

    /// As [`Table::lookup`], among the entries of `state`, of which `id` is this table.
    pub fn ask(&mut self, state: &State, id: TableId, slots: &[u64], keys: &[Reg], now: u64) -> Option<u32> {
        let Strategy::Asked(asked) = &self.strategy else { return None };
        self.shape.pack(slots, keys, &mut self.key);
        let entry = asked.find(state, id, &self.shape, &self.layout, &self.key)?;
        match self.find(entry) {
            Some(number) => Some(number),
            None => Some(self.insert(entry, CounterData::default(), now)),
        }
    }

    /// Packs a packet's key and looks it up: the number of the entry that is hit.
    #[inline]
    pub fn lookup(&mut self, slots: &[u64], keys: &[Reg]) -> Option<u32> {
        let mut key = std::mem::take(&mut self.key);
        self.shape.pack(slots, keys, &mut key);
        self.key = key;
        match &mut self.strategy {
            Strategy::Never => None,
            Strategy::Exact(map) => map.get(&self.key),
            Strategy::Prefixes(prefixes) => prefixes.get(&self.key),
            Strategy::Scan(scan) => scan.get(&self.key),
            Strategy::Asked(_) => None,
        }
    }

    /// As [`Table::lookup`], for many packets: `packets` gives their slots. All keys are packed first, so that nothing stands between the lookups and they wait for
    /// memory together. Neighbours with one key are looked up once.
    pub fn lookup_many<'s>(
        &mut self,
        packets: impl Iterator<Item = &'s [u64]>,
        keys: &[Reg],
        found: impl FnMut(Option<u32>),
    ) {
        let mut many = std::mem::take(&mut self.many);
        let words = self.shape.total;
        many.clear();
        for slots in packets {
            let at = many.different * words;
            many.keys.resize(at + words, 0);
            self.shape.pack(slots, keys, &mut many.keys[at..]);
            let (before, key) = many.keys.split_at(at);
            let same = many.different > 0 && before[at - words..].iter().zip(key).all(|(one, other)| one == other);
            many.different += usize::from(!same);
            many.which.push(many.different as u32 - 1);
        }
        many.keys.truncate(many.different * words);
        let Many { keys, hashes, numbers, which, different } = &mut many;
        let each = |number| numbers.push(number);
        match &mut self.strategy {
            Strategy::Never | Strategy::Asked(_) => numbers.resize(*different, None),
            Strategy::Exact(map) => {
                let keys = || keys.chunks_exact(words);
                hashes.extend(keys().map(|key| map.soon(key)));
                keys().zip(&*hashes).map(|(key, hash)| map.get_hashed(key, *hash)).for_each(each);
            }
            Strategy::Prefixes(prefixes) => prefixes.get_many(keys, words, hashes, each),
            Strategy::Scan(scan) => scan.get_many(keys, words, hashes, each),
        }
        which.iter().map(|which| numbers[*which as usize]).for_each(found);
        self.many = many;
    }

    /// The arguments of an entry with a direct action.
    #[inline]
    pub fn args(&self, slot: u32) -> &[u64] {
        let first = slot as usize * self.stride;
        &self.args[first..first + self.stride]
    }

    /// The arguments of an entry will be read soon.
    #[inline]
    pub fn args_soon(&self, slot: u32) {
        soon(&self.args, slot as usize * self.stride);
    }

    /// The position of an action in the table's list.
    pub fn position(&self, action: ir::ActionId) -> Option<u32> {
        self.positions.get(action.index()).copied().flatten()
    }

    /// What an action leads to, and its arguments.
    pub fn target<'a>(&self, action: PackedAction<'a>) -> (Target, &'a [u64]) {
        match action {
            PackedAction::Call(id, args) => (Target::Arm(self.position(id).unwrap_or(0)), args),
            PackedAction::Member(id) => (Target::Member(id), &[]),
            PackedAction::Group(id) => (Target::Group(id), &[]),
        }
    }

    /// Adds an entry. `now` begins its idle time.
    pub fn insert(&mut self, entry: &Entry, counter: CounterData, now: u64) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::free());
            self.args.resize(self.slots.len() * self.stride, 0);
            self.slots.len() as u32 - 1
        });
        self.set(number, entry);
        self.slots[number as usize].begin(entry, counter, now);
        match &mut self.strategy {
            Strategy::Never => {}
            Strategy::Exact(map) => {
                map.insert(&self.shape.pack_entry(&self.layout, entry), number);
            }
            Strategy::Prefixes(prefixes) => prefixes.insert(&self.shape, &self.layout, entry, number),
            Strategy::Scan(scan) => scan.insert(&self.shape, &self.layout, entry, number),
            Strategy::Asked(asked) => asked.insert(entry, number),
        }
        number
    }

    /// The action of a slot.
    fn set(&mut self, number: u32, entry: &Entry) {
        let (target, args) = self.target(entry.action());
        let first = number as usize * self.stride;
        let room = &mut self.args[first..first + self.stride];
        room.fill(0);
        room[..args.len()].copy_from_slice(args);
        self.slots[number as usize].target = target;
    }

    /// Replaces an entry by one with the same key. Its counter goes on; its meter does if the configuration is the same.
    pub fn modify(&mut self, old: &Entry, new: &Entry, counter: Option<CounterData>, now: u64) -> Option<u32> {
        let number = self.find(old)?;
        self.set(number, new);
        if let Strategy::Scan(scan) = &mut self.strategy {
            // Rules keep their entries for sorting.
            scan.insert(&self.shape, &self.layout, new, number);
        }
        self.slots[number as usize].replace(old, new, counter, now);
        Some(number)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, entry: &Entry) -> Option<u32> {
        let number = match &mut self.strategy {
            Strategy::Never => None,
            Strategy::Exact(map) => map.remove(&self.shape.pack_entry(&self.layout, entry)),
            Strategy::Prefixes(prefixes) => prefixes.remove(&self.shape, &self.layout, entry),
            Strategy::Scan(scan) => scan.remove(entry),
            Strategy::Asked(asked) => asked.remove(entry),
        }?;
        self.slots[number as usize].end();
        self.free.push(number);
        Some(number)
    }

    /// The number of an entry.
    pub fn find(&self, entry: &Entry) -> Option<u32> {
        match &self.strategy {
            Strategy::Never => None,
            Strategy::Exact(map) => map.get(&self.shape.pack_entry(&self.layout, entry)),
            Strategy::Prefixes(prefixes) => prefixes.find(&self.shape, &self.layout, entry),
            Strategy::Scan(scan) => scan.find(entry),
            Strategy::Asked(asked) => asked.number(entry),
        }
    }

    /// Call it after the changes of a batch.
    pub fn settle(&mut self) {
        if let Strategy::Scan(scan) = &mut self.strategy {
            scan.settle(&self.shape, &self.layout);
        }
    }

    /// The key that was looked up last, in the form of an entry of a table whose keys are all exact.
    pub fn missed_key(&self) -> PackedKey {
        self.shape.unpack(&self.layout, &self.key)
    }
}
