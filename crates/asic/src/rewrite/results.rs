//! What many entries give alike is kept once: entries have the number of a result, and a table of results says what that is.
//!
//! A million of machines are on some ten thousand servers. An entry that names its server by an IPv6 address takes 128 bits of action memory for it, though
//! 16 bits say which of 65,536 servers it is. So the argument that few values are found in, and which action it belongs to, go to the table of
//! results; all other arguments stay in the entry.
//!
//! # What an entry becomes
//! Actions with an argument of the name that is given become one, `found`, with the number of a result and all arguments that are left. The result
//! has the action again, with that one argument. Entries that agree in action and argument share a result; it is made with the first of them and goes
//! with the last. Where no number is free, an entry is refused: what there is room for, [`Options::values`], is a promise about the entries
//! that somebody must be able to give (servers of a region, next hops of a network).
//!
//! All of it costs a lookup behind the table's own, and on a chip a stage.

use super::entries::{Words, write};
use super::graph::{self, Code};
use super::journal::Journal;
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use ir::{
    Action, ActionCall, ActionId, ActionRef, Arm, Block, BlockCall, Key, MatchKind, Param, Pipeline, Preamble, TableId,
    Term, Type, Value,
};
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tables::{ArgField, Entry, PackedAction, PackedEntry, Update, UpdateKind, action_layout};

/// Most results of a table.
pub const MOST: u64 = 1 << 24;

/// How a table's results are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the argument, in all actions that have one of this name.
    pub argument: String,
    /// How many different values of it (and of the action with it) there may be at a time; none: as many as the sizes say ([`value_name`]).
    pub values: Option<u64>,
}

/// The name by which sizes say how many values an action's argument has: `gateway.vm_nc.on_server_v4.server`.
pub fn value_name(action: &str, argument: &str) -> String {
    format!("{action}.{argument}")
}

/// The names of all arguments of all actions.
pub fn value_names(pipeline: &Pipeline) -> impl Iterator<Item = String> {
    pipeline.actions.values().flat_map(|action| {
        let name = |param: &Param| value_name(&action.preamble.name, &param.name);
        action.params.iter().map(name)
    })
}

/// How many values an argument of a table's actions has by what sizes say; none where they do not say it of all of them.
pub fn known(pipeline: &Pipeline, sizes: &Sizes, table: &ir::Table, argument: &str) -> Option<u64> {
    let actions =
        table.actions.iter().filter(|listed| !listed.default_only).map(|listed| &pipeline.actions[listed.action]);
    let mut sum = None;
    for action in actions.filter(|action| action.params.iter().any(|param| param.name == argument)) {
        let values = sizes.get(&value_name(&action.preamble.name, argument))?;
        sum = Some(sum.unwrap_or(0u64).saturating_add(*values));
    }
    sum
}

/// The name of the table of results of a table.
pub fn results_name(table: &str) -> String {
    format!("{table}_results")
}

/// An action of the table whose argument goes to the results.
struct Shared {
    from: ActionId,
    /// The action of the result.
    to: ActionId,
    /// Position of the argument.
    at: usize,
    /// For each argument that the entry keeps, its position here; none where this action has no such one.
    kept: Vec<Option<usize>>,
    ty: Type,
}

/// Takes an argument of a table (control-plane name) to a table of results.
///
/// # Errors
/// No action that has the argument, a default action that would have it, or more results than [`MOST`].
pub fn results(
    first: &Arc<Pipeline>,
    sizes: &Sizes,
    table: &str,
    options: &Options,
) -> Result<Rewritten, RewriteError> {
    let id = graph::find(first, table)?;
    let declared = graph::plain(first, id)?;
    let site = graph::site(first, id)?;
    let chosen = chosen(first, declared, &options.argument)?;
    let room = options.values.or_else(|| known(first, sizes, declared, &options.argument)).unwrap_or(0);
    if !(1..=MOST).contains(&room) {
        return Err(RewriteError::new(
            table,
            format!("there can be 1 to {MOST} values of {}, not {room}; say how many there are", options.argument),
        ));
    }
    let bits = (64 - (room - 1).leading_zeros()).max(1);

    let mut second = (**first).clone();
    let number = Param::new("result", Type::Bit(bits));
    let kept = kept(first, &chosen);
    let found =
        add(&mut second, format!("{table}_found"), std::iter::once(number).chain(kept.iter().cloned()), declared.loc);
    let shared = shared(&mut second, table, &chosen, &kept);
    let results = second.tables.push(table_of(declared, bits, &shared, room));
    let entries = &mut second.tables[id];
    (entries.entries, entries.const_entries) = (Vec::new(), false);
    let given_up = |action: ActionId| chosen.iter().any(|(chosen, _)| *chosen == action);
    entries.actions.retain(|listed| !given_up(listed.action));
    entries.actions.insert(0, ActionRef { table_only: true, ..ActionRef::new(found) });

    let body = &mut second.controls[site.control].body;
    let Some((keys, arms, loc)) = graph::take_apply(body, site.block) else {
        return Err(RewriteError::new(table, "its application is gone, which is a bug"));
    };
    let mut code = Code { body, block: site.block, loc };
    let types: Vec<Type> = std::iter::once(Type::Bit(bits)).chain(kept.iter().map(|param| param.ty)).collect();
    let (hit, given) = code.arm_block(&types);
    let (others, mut here): (Vec<Arm>, Vec<Arm>) = arms.into_iter().partition(|arm| !given_up(arm.action));
    let arms = std::iter::once(Arm { action: found, block: hit }).chain(others).collect();
    code.end(Term::Apply { table: id, keys, arms });
    let ends = shared.iter().filter_map(|shared| {
        let at = here.iter().position(|arm| arm.action == shared.from)?;
        Some((shared, here.swap_remove(at).block))
    });
    let ends: Vec<(&Shared, Block)> = ends.collect();
    let arms = ends.iter().map(|(shared, block)| behind(&mut code, shared, *block, &given)).collect();
    code.block = hit;
    code.end(Term::Apply { table: results, keys: vec![given[1]], arms });

    let rule = Results {
        name: table.to_owned(),
        from: id,
        results,
        found,
        places: places(first, &second, found, &shared),
        room,
        held: Journal::new(),
        free: Vec::new(),
        next: 0,
        taken: Vec::new(),
    };
    let numbers = first.tables.keys().collect();
    let (map, pipeline) = Shadowed::new(first, second, numbers, &[id, results], rule)?;
    let mut sizes = sizes.clone();
    sizes.insert(results_name(table), room);
    Ok(Rewritten { pipeline, sizes, map: Box::new(map) })
}

/// The actions that have the argument, and its position in each.
fn chosen(pipeline: &Pipeline, table: &ir::Table, argument: &str) -> Result<Vec<(ActionId, usize)>, RewriteError> {
    let refused = |reason: String| Err(RewriteError::new(&table.preamble.name, reason));
    let listed: Vec<&ActionRef> = table.actions.iter().filter(|listed| !listed.default_only).collect();
    let at = |action: ActionId| pipeline.actions[action].params.iter().position(|param| param.name == argument);
    let chosen: Vec<_> = listed.iter().filter_map(|listed| Some((listed.action, at(listed.action)?))).collect();
    if chosen.is_empty() {
        let names = listed.iter().flat_map(|listed| &pipeline.actions[listed.action].params);
        let names: BTreeSet<&str> = names.map(|param| param.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        return refused(format!("no action of its entries has an argument {argument}; there are {}", names.join(", ")));
    }
    let free = |listed: &&&ActionRef| !listed.table_only && at(listed.action).is_some();
    let changes = !table.const_default && listed.iter().any(|listed| free(&listed));
    if changes || chosen.iter().any(|(action, _)| *action == table.default_action.action) {
        return refused(format!(
            "its default action has, or may come to have, the argument {argument}, and a default action has no result; make it const, with \
             another action"
        ));
    }
    Ok(chosen)
}

fn add(pipeline: &mut Pipeline, name: String, params: impl Iterator<Item = Param>, loc: ir::Loc) -> ActionId {
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    pipeline.actions.push(Action { preamble, params: params.collect(), loc })
}

/// All arguments that entries keep: those of one name and type are one.
fn kept(pipeline: &Pipeline, chosen: &[(ActionId, usize)]) -> Vec<Param> {
    let mut kept: Vec<Param> = Vec::new();
    for (action, at) in chosen {
        for (_, own) in pipeline.actions[*action].params.iter().enumerate().filter(|(n, _)| n != at) {
            if !kept.iter().any(|other| (&other.name, other.ty) == (&own.name, own.ty)) {
                kept.push(Param::new(own.name.clone(), own.ty));
            }
        }
    }
    kept
}

/// The actions of results: each has the argument that its own had, alone.
fn shared(pipeline: &mut Pipeline, table: &str, chosen: &[(ActionId, usize)], kept: &[Param]) -> Vec<Shared> {
    let mut out = Vec::new();
    for (from, at) in chosen {
        let action = pipeline.actions[*from].clone();
        let own = &action.params[*at];
        let place = |kept: &Param| {
            let same = |(n, own): &(usize, &Param)| n != at && (&own.name, own.ty) == (&kept.name, kept.ty);
            action.params.iter().enumerate().find(same).map(|(n, _)| n)
        };
        let short = action.preamble.name.rsplit('.').next().unwrap_or_default();
        let name = format!("{table}_results_{short}");
        let to = add(pipeline, name, std::iter::once(Param::new(own.name.clone(), own.ty)), action.loc);
        out.push(Shared { from: *from, to, at: *at, kept: kept.iter().map(place).collect(), ty: own.ty });
    }
    out
}

fn table_of(declared: &ir::Table, bits: u32, shared: &[Shared], room: u64) -> ir::Table {
    let mut table = graph::like(declared, "results");
    table.keys = vec![Key::new("result", Type::Bit(bits), MatchKind::Exact)];
    let listed = |shared: &Shared| ActionRef::new(shared.to);
    table.actions = shared.iter().map(listed).collect();
    // No packet meets it: each number that an entry has is that of a result.
    let action = shared.first().map_or(declared.default_action.action, |shared| shared.to);
    table.default_action = ActionCall { action, args: vec![BigUint::ZERO] };
    (table.const_default, table.size) = (true, Some(room));
    table
}

/// The arm of a result: goes on with what the entry's action did, with the arguments of both.
fn behind(code: &mut Code<'_>, shared: &Shared, then: Block, given: &[Value]) -> Arm {
    let (block, params) = code.arm_block(&[shared.ty]);
    let count = shared.kept.iter().flatten().count() + 1;
    let own = |at: usize| match shared.kept.iter().position(|kept| *kept == Some(at)) {
        Some(kept) if at != shared.at => given[kept + 2],
        _ => params[1],
    };
    let args = std::iter::once(given[0]).chain((0..count).map(own)).collect();
    code.block = block;
    code.end(Term::Jump(BlockCall { block: then, args }));
    Arm { action: shared.to, block }
}

/// Where the words of an action's arguments go.
struct Place {
    to: ActionId,
    value: ArgField,
    /// Words here, and where they begin in the arguments of `found`.
    kept: Vec<(ArgField, usize)>,
    /// Words of all arguments of `found`.
    words: usize,
}

fn places(first: &Pipeline, second: &Pipeline, found: ActionId, shared: &[Shared]) -> HashMap<ActionId, Place> {
    let there = action_layout(second, found);
    let one = |shared: &Shared| {
        let here = action_layout(first, shared.from);
        let kept = shared.kept.iter().zip(&there[1..]);
        let kept = kept.filter_map(|(at, to)| Some((here[(*at)?], to.offset))).collect();
        let words = there.iter().map(|field| field.words).sum();
        (shared.from, Place { to: shared.to, value: here[shared.at], kept, words })
    };
    shared.iter().map(one).collect()
}

/// Which results there are.
struct Results {
    name: String,
    from: TableId,
    results: TableId,
    found: ActionId,
    places: HashMap<ActionId, Place>,
    room: u64,
    /// By the action that the entry has, and the words of the argument: the number, and the entries that have it.
    held: Journal<(ActionId, Words), (u64, u64)>,
    /// Numbers that were given back, and the first that never was given.
    free: Vec<u64>,
    next: u64,
    /// What happened to numbers since the beginning, to be undone from the end.
    taken: Vec<Number>,
}

/// What happened to a number.
enum Number {
    New,
    Again(u64),
    Back,
}

impl Results {
    /// The place of the entry's arguments, and the key of its result; none where its action has no result.
    fn result(&self, entry: &Entry) -> Option<(&Place, (ActionId, Words), Vec<u64>)> {
        let PackedAction::Call(action, args) = entry.action() else { return None };
        let place = self.places.get(&action)?;
        let value = &args[place.value.offset..place.value.offset + place.value.words];
        let mut kept = vec![0; place.words];
        for (from, to) in &place.kept {
            kept[*to..to + from.words].copy_from_slice(&args[from.offset..from.offset + from.words]);
        }
        Some((place, (action, Words::from_slice(value)), kept))
    }

    /// Takes the result of an entry, and says what becomes of the entry's own action.
    fn take(&mut self, entry: &Entry, out: &mut Vec<Update>) -> Result<Option<Vec<u64>>, String> {
        let Some((place, key, mut args)) = self.result(entry) else { return Ok(None) };
        let to = place.to;
        let (number, count) = match self.held.get(&key) {
            Some(held) => *held,
            None => {
                let number = self.number()?;
                let result = PackedEntry::new(self.results, &[number], PackedAction::Call(to, &key.1));
                out.push(Update::Packed(UpdateKind::Insert, result));
                (number, 0)
            }
        };
        self.held.insert(key, (number, count + 1));
        args[0] = number;
        Ok(Some(args))
    }

    /// Gives the result of an entry back.
    fn give(&mut self, entry: &Entry, out: &mut Vec<Update>) {
        let Some((_, key, _)) = self.result(entry) else { return };
        let Some((number, count)) = self.held.get(&key).copied() else { return };
        if count > 1 {
            self.held.insert(key, (number, count - 1));
            return;
        }
        self.held.remove(&key);
        self.free.push(number);
        self.taken.push(Number::Back);
        out.push(Update::Packed(UpdateKind::Delete, PackedEntry::identity(self.results, &[number])));
    }

    fn number(&mut self) -> Result<u64, String> {
        if let Some(number) = self.free.pop() {
            self.taken.push(Number::Again(number));
            return Ok(number);
        }
        if self.next == self.room {
            return Err(format!(
                "table {}: its table of results is full ({} of them), and no entry gives what this one does; delete entries, or make room for more \
                 results",
                self.name, self.room
            ));
        }
        self.taken.push(Number::New);
        self.next += 1;
        Ok(self.next - 1)
    }

    /// The write of an entry whose result is there.
    fn put(&self, kind: UpdateKind, entry: &Entry, args: Option<&[u64]>) -> Update {
        let Some(args) = args else { return write(kind, self.from, entry.key(), entry, entry.priority()) };
        let packed = PackedEntry::new(self.from, entry.key(), PackedAction::Call(self.found, args));
        Update::Packed(kind, packed.with_attributes_of(entry).with_priority(entry.priority()))
    }
}

impl Rule for Results {
    fn owns(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin(&mut self) {
        self.held.begin();
        self.taken.clear();
    }

    fn undo(&mut self) {
        self.held.undo();
        while let Some(number) = self.taken.pop() {
            match number {
                Number::New => self.next -= 1,
                Number::Again(number) => self.free.push(number),
                Number::Back => {
                    self.free.pop();
                }
            }
        }
    }

    fn entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => {
                let args = self.take(entry, out)?;
                out.push(self.put(UpdateKind::Insert, entry, args.as_deref()));
            }
            EntryChange::Modified(old, new) => {
                // The old result is there until nobody has it: a change needs a free number, as on the chip.
                let args = self.take(new, out)?;
                out.push(self.put(UpdateKind::Modify, new, args.as_deref()));
                self.give(old, out);
            }
            EntryChange::Deleted(entry) => {
                out.push(write(UpdateKind::Delete, self.from, entry.key(), entry, entry.priority()));
                self.give(entry, out);
            }
        }
        Ok(())
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![
            (format!("{}: results", self.name), self.held.len() as f64),
            (format!("{}: room for results", self.name), self.room as f64),
        ]
    }
}
