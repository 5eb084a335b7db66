//! What many entries give alike is kept once: entries have the number of a result, and a table of results says what that is.
//!
//! A million of machines are on some ten thousand servers. An entry that names its server by an IPv6 address takes 128 bits of action memory for it, though
//! 16 bits say which of 65,536 servers it is. So the argument that few values are found in, and which action it belongs to, go to the table of
//! results; all other arguments stay in the entry.
//!
//! # What an entry becomes
//! In place of an action with an argument of the name that is given it has another one, `found`, with the number of a result and all arguments that
//! are left. The result is the argument's value, in as many bits as the widest of these arguments has. Entries that agree in it share a result; it is made with the
//! first of them and goes with the last. Where no number is free, an entry is refused: what there is room for, [`Options::values`], is a promise
//! about the entries that somebody must be able to give (servers of a region, next hops of a network).
//!
//! All of it costs a lookup behind the table's own, and on a chip a stage. A table of results has one action, so that with a result for each value of
//! the number, 2^n of them, a chip compares nothing: the number is the place of the value. Such a table lies in one stage; where there are more values than that
//! holds, several tables have them ([`Options::each`]), and an entry says which one, too.

use super::entries::{Words, write};
use super::graph::{self, Code};
use super::journal::Journal;
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{ArgField, Entry, PackedAction, PackedEntry, Update, UpdateKind, action_layout};
use ir::{
    Action, ActionCall, ActionId, ActionRef, Arm, BinaryOp, Block, BlockCall, Const, EntityMap, Inst, Key, MatchKind,
    Param, Pipeline, Preamble, TableId, Term, Type, Value,
};
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Most results of a table.
pub const MOST: u64 = 1 << 24;

/// How a table's results are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the argument, in all actions that have one of this name.
    pub argument: String,
    /// How many different values of it (and of the action with it) there may be at a time; none: as many as the sizes say ([`value_name`]).
    pub values: Option<u64>,
    /// Results of one table, a power of two, where several have them; the last one has as many as are left, as a power of two. None: one table has all.
    pub each: Option<u64>,
}

impl Options {
    /// One table of results for an argument.
    pub fn one(argument: impl Into<String>, values: Option<u64>) -> Options {
        Options { argument: argument.into(), values, each: None }
    }

    /// Results of each table, for so many values.
    fn tables(&self, values: u64) -> Vec<u64> {
        let Some(each) = self.each.filter(|each| each.is_power_of_two()) else { return vec![values] };
        let rest = Some(values % each).filter(|rest| *rest > 0).map(u64::next_power_of_two);
        std::iter::repeat_n(each, (values / each) as usize).chain(rest).collect()
    }
}

/// Most tables of results.
const MOST_TABLES: usize = 64;

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

/// The name of the table of results of a table, where there is one.
pub fn results_name(table: &str) -> String {
    format!("{table}_results")
}

/// Bits for so many numbers.
fn bits_for(count: u64) -> u32 {
    (64 - count.saturating_sub(1).leading_zeros()).max(1)
}

/// An action of the table whose argument goes to the results.
struct Shared {
    from: ActionId,
    /// What the entry has in its place: which table, if there are several, the number there, and all other arguments.
    found: ActionId,
    /// Position of the argument.
    at: usize,
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
    let each = options.tables(room);
    if each.len() > MOST_TABLES {
        let (count, of) = (each.len(), each[0]);
        return Err(RewriteError::new(table, format!("{count} tables of {of} results are more than {MOST_TABLES}")));
    }
    let number = Type::Bit(bits_for(each[0].max(each[each.len() - 1])));
    let part = (each.len() > 1).then(|| Type::Bit(bits_for(each.len() as u64)));

    let mut second = (**first).clone();
    let shared = shared(&mut second, table, &chosen, part, number);
    let widest = Type::Bit(shared.iter().map(|shared| shared.ty.width()).max().unwrap_or(1));
    let value = Param::new(options.argument.clone(), widest);
    let to = add(&mut second, format!("{}_value", results_name(table)), vec![value], declared.loc);
    let results: Vec<TableId> = each
        .iter()
        .enumerate()
        .map(|(n, room)| {
            let suffix = if each.len() == 1 { "results".to_owned() } else { format!("results_{n}") };
            second.tables.push(table_of(declared, &suffix, number, to, *room))
        })
        .collect();
    let entries = &mut second.tables[id];
    (entries.entries, entries.const_entries) = (Vec::new(), false);
    let given_up = |action: ActionId| shared.iter().any(|shared| shared.from == action);
    entries.actions.retain(|listed| !given_up(listed.action));
    let found = |shared: &Shared| ActionRef { table_only: true, ..ActionRef::new(shared.found) };
    entries.actions.splice(0..0, shared.iter().map(found));

    let actions = second.actions.clone();
    let body = &mut second.controls[site.control].body;
    let Some((keys, arms, loc)) = graph::take_apply(body, site.block) else {
        return Err(RewriteError::new(table, "its application is gone, which is a bug"));
    };
    let (here, others): (Vec<Arm>, Vec<Arm>) = arms.into_iter().partition(|arm| given_up(arm.action));
    let mut code = Code { body, block: site.block, loc };
    let lookup = Lookup { actions: &actions, results: &results, to, part, number, shared: &shared };
    let arms = lookup.code(&mut code, &here);
    code.block = site.block;
    code.end(Term::Apply { table: id, keys, arms: arms.into_iter().chain(others).collect() });

    let rule = Results {
        name: table.to_owned(),
        from: id,
        results: results.clone(),
        each: each[0],
        parts: usize::from(part.is_some()),
        to,
        words: action_layout(&second, to).iter().map(|field| field.words).sum(),
        places: places(first, &second, &shared),
        room: each.iter().sum(),
        held: Journal::new(),
        free: Vec::new(),
        next: 0,
        taken: Vec::new(),
    };
    let numbers = first.tables.keys().collect();
    let made: Vec<String> = results.iter().map(|table| second.tables[*table].preamble.name.clone()).collect();
    let written: Vec<TableId> = std::iter::once(id).chain(results).collect();
    let (map, pipeline) = Shadowed::new(first, second, numbers, &written, rule)?;
    let mut sizes = sizes.clone();
    sizes.extend(made.into_iter().zip(each));
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

fn add(pipeline: &mut Pipeline, name: String, params: Vec<Param>, loc: ir::Loc) -> ActionId {
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    pipeline.actions.push(Action { preamble, params, loc })
}

/// What entries have in place of the actions whose argument goes to the results.
fn shared(
    pipeline: &mut Pipeline,
    table: &str,
    chosen: &[(ActionId, usize)],
    part: Option<Type>,
    number: Type,
) -> Vec<Shared> {
    let mut out = Vec::new();
    for (from, at) in chosen {
        let action = pipeline.actions[*from].clone();
        let ty = action.params[*at].ty;
        let others = action.params.iter().enumerate().filter(|(n, _)| n != at).map(|(_, own)| own);
        let others = others.map(|own| Param::new(own.name.clone(), own.ty));
        let place = part.map(|part| Param::new("part", part)).into_iter().chain([Param::new("result", number)]);
        let params = place.chain(others).collect();
        let short = action.preamble.name.rsplit('.').next().unwrap_or_default();
        let found = add(pipeline, format!("{table}_found_{short}"), params, action.loc);
        out.push(Shared { from: *from, found, at: *at, ty });
    }
    out
}

fn table_of(declared: &ir::Table, suffix: &str, number: Type, action: ActionId, room: u64) -> ir::Table {
    let mut table = graph::like(declared, suffix);
    table.keys = vec![Key::new("result", number, MatchKind::Exact)];
    table.actions = vec![ActionRef::new(action)];
    // No packet meets it: each number that an entry has is that of a result.
    table.default_action = ActionCall { action, args: vec![BigUint::ZERO] };
    (table.const_default, table.size) = (true, Some(room));
    table
}

/// The code between an entry and what its action did.
struct Lookup<'a> {
    actions: &'a EntityMap<ActionId, Action>,
    results: &'a [TableId],
    to: ActionId,
    part: Option<Type>,
    number: Type,
    shared: &'a [Shared],
}

impl Lookup<'_> {
    /// Parameters that say where a result is.
    fn place(&self) -> Vec<Type> {
        self.part.into_iter().chain([self.number]).collect()
    }

    /// Types of what an entry has besides.
    fn others(&self, shared: &Shared) -> Vec<Type> {
        self.actions[shared.found].params[self.place().len()..].iter().map(|param| param.ty).collect()
    }

    /// The arms of what entries have: all of them look their result up at one place, behind which each goes on to what its action did, with the
    /// arguments of both.
    fn code(&self, code: &mut Code<'_>, here: &[Arm]) -> Vec<Arm> {
        // Which action it was, whether the lookup hit, where the result is, and all other arguments of all actions in a row.
        let which = Type::Bit(bits_for(self.shared.len() as u64));
        let all: Vec<Type> = self.shared.iter().flat_map(|shared| self.others(shared)).collect();
        let types = [which, Type::Bool].into_iter().chain(self.place()).chain(all.iter().copied());
        let met = code.new_block();
        let given: Vec<Value> = types.map(|ty| code.body.values.push(ty)).collect();
        code.body.blocks[met].params = given.clone();
        let arms = self.arms(code, met, which, &all);
        code.block = met;
        let value = self.value(code, &given[2..2 + self.place().len()]);
        self.behind(code, &given, value, here);
        arms
    }

    fn arms(&self, code: &mut Code<'_>, met: Block, which: Type, all: &[Type]) -> Vec<Arm> {
        let (mut arms, mut begin, places) = (Vec::new(), 0, self.place().len());
        for (n, shared) in self.shared.iter().enumerate() {
            let own = self.others(shared);
            let types: Vec<Type> = self.place().into_iter().chain(own.iter().copied()).collect();
            let (block, params) = code.arm_block(&types);
            code.block = block;
            let mut args = vec![code.bits(which.width(), n as u64)];
            args.extend(&params[..=places]);
            for (at, ty) in all.iter().enumerate() {
                let value = match at.checked_sub(begin).and_then(|at| params.get(at + 1 + places)) {
                    Some(value) => *value,
                    None => code.inst(Inst::Const(Const::new(*ty, 0u8)), *ty),
                };
                args.push(value);
            }
            code.end(Term::Jump(BlockCall { block: met, args }));
            arms.push(Arm { action: shared.found, block });
            begin += own.len();
        }
        arms
    }

    /// Looks the result up: in one table, or in the one of that part. The code goes on behind it.
    fn value(&self, code: &mut Code<'_>, place: &[Value]) -> Value {
        let widest = self.actions[self.to].params[0].ty;
        let found = code.new_block();
        let value = code.body.values.push(widest);
        code.body.blocks[found].params = vec![value];
        for (n, table) in self.results.iter().enumerate() {
            let more = n + 1 < self.results.len();
            let (lookup, next) = if more { (code.new_block(), code.new_block()) } else { (code.block, code.block) };
            if more {
                let part = code.bits(self.part.map_or(1, Type::width), n as u64);
                let cond = code.inst(Inst::Binary(BinaryOp::Eq, place[0], part), Type::Bool);
                code.end(Term::Branch { cond, then: BlockCall::to(lookup), els: BlockCall::to(next) });
            }
            let (got, params) = code.arm_block(&[widest]);
            code.block = lookup;
            let arms = vec![Arm { action: self.to, block: got }];
            code.end(Term::Apply { table: *table, keys: vec![place[place.len() - 1]], arms });
            code.block = got;
            code.end(Term::Jump(BlockCall { block: found, args: vec![params[1]] }));
            code.block = next;
        }
        code.block = found;
        value
    }

    /// Goes on to what the entry's action did.
    fn behind(&self, code: &mut Code<'_>, given: &[Value], value: Value, here: &[Arm]) {
        let mut begin = 2 + self.place().len();
        let mut ends = Vec::new();
        for (n, shared) in self.shared.iter().enumerate() {
            let others = &given[begin..][..self.others(shared).len()];
            begin += others.len();
            let arm = here.iter().find(|arm| arm.action == shared.from);
            ends.extend(arm.map(|arm| (n, shared, others, arm.block)));
        }
        for (left, (n, shared, others, block)) in
            ends.iter().enumerate().map(|(done, end)| (ends.len() - done - 1, *end))
        {
            let (then, mut after) = (code.new_block(), code.block);
            if left == 0 {
                code.end(Term::Jump(BlockCall::to(then)));
            } else {
                let number = code.bits(code.body.value_type(given[0]).width(), n as u64);
                let cond = code.inst(Inst::Binary(BinaryOp::Eq, given[0], number), Type::Bool);
                after = code.new_block();
                code.end(Term::Branch { cond, then: BlockCall::to(then), els: BlockCall::to(after) });
            }
            code.block = then;
            let value = narrowed(code, value, shared.ty);
            let mut args: Vec<Value> = others.to_vec();
            args.insert(shared.at, value);
            args.insert(0, given[1]);
            code.end(Term::Jump(BlockCall { block, args }));
            code.block = after;
        }
    }
}

/// A result in the type that the action's argument has.
fn narrowed(code: &mut Code<'_>, value: Value, ty: Type) -> Value {
    let bits = code.cast(Type::Bit(ty.width()), value);
    code.cast(ty, bits)
}

/// Where the words of an action's arguments go.
struct Place {
    found: ActionId,
    value: ArgField,
    /// Words here, and where they begin in the arguments of `found`.
    kept: Vec<(ArgField, usize)>,
    /// Words of all arguments of `found`.
    words: usize,
}

fn places(first: &Pipeline, second: &Pipeline, shared: &[Shared]) -> HashMap<ActionId, Place> {
    let one = |shared: &Shared| {
        let (here, there) = (action_layout(first, shared.from), action_layout(second, shared.found));
        let others = here.iter().enumerate().filter(|(n, _)| *n != shared.at);
        let kept = others.zip(&there[there.len() + 1 - here.len()..]);
        let kept = kept.map(|((_, from), to)| (*from, to.offset)).collect();
        let words = there.iter().map(|field| field.words).sum();
        (shared.from, Place { found: shared.found, value: here[shared.at], kept, words })
    };
    shared.iter().map(one).collect()
}

/// Which results there are.
struct Results {
    name: String,
    from: TableId,
    results: Vec<TableId>,
    /// Results of each table but the last one.
    each: u64,
    /// Whether an entry says which table has its result, in its first word.
    parts: usize,
    /// The action of results, and the words of its value.
    to: ActionId,
    words: usize,
    places: HashMap<ActionId, Place>,
    room: u64,
    /// By the words of the value: the number, and the entries that have it.
    held: Journal<Words, (u64, u64)>,
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
    /// The place of the entry's arguments, and its value; none where its action has no result.
    fn result(&self, entry: &Entry) -> Option<(&Place, Words, Vec<u64>)> {
        let PackedAction::Call(action, args) = entry.action() else { return None };
        let place = self.places.get(&action)?;
        let own = &args[place.value.offset..place.value.offset + place.value.words];
        let value = own.iter().copied().chain(std::iter::repeat(0)).take(self.words).collect();
        let mut kept = vec![0; place.words];
        for (from, to) in &place.kept {
            kept[*to..to + from.words].copy_from_slice(&args[from.offset..from.offset + from.words]);
        }
        Some((place, value, kept))
    }

    /// Takes the result of an entry, and says what the entry has in place of its own action.
    fn take(&mut self, entry: &Entry, out: &mut Vec<Update>) -> Result<Option<(ActionId, Vec<u64>)>, String> {
        let Some((place, value, mut args)) = self.result(entry) else { return Ok(None) };
        let found = place.found;
        let (number, count) = match self.held.get(&value) {
            Some(held) => *held,
            None => {
                let number = self.number()?;
                let (table, at) = self.table_of(number);
                let result = PackedEntry::new(table, &[at], PackedAction::Call(self.to, &value));
                out.push(Update::Packed(UpdateKind::Insert, result));
                (number, 0)
            }
        };
        self.held.insert(value, (number, count + 1));
        args[0] = number / self.each;
        args[self.parts] = number % self.each;
        Ok(Some((found, args)))
    }

    /// The table of a result, and its number there.
    fn table_of(&self, number: u64) -> (TableId, u64) {
        let at = (number / self.each) as usize;
        (self.results[at.min(self.results.len() - 1)], number % self.each)
    }

    /// Gives the result of an entry back.
    fn give(&mut self, entry: &Entry, out: &mut Vec<Update>) {
        let Some((_, value, _)) = self.result(entry) else { return };
        let Some((number, count)) = self.held.get(&value).copied() else { return };
        if count > 1 {
            self.held.insert(value, (number, count - 1));
            return;
        }
        self.held.remove(&value);
        self.free.push(number);
        self.taken.push(Number::Back);
        let (table, at) = self.table_of(number);
        out.push(Update::Packed(UpdateKind::Delete, PackedEntry::identity(table, &[at])));
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
    fn put(&self, kind: UpdateKind, entry: &Entry, has: Option<(ActionId, Vec<u64>)>) -> Update {
        let Some((found, args)) = has else { return write(kind, self.from, entry.key(), entry, entry.priority()) };
        let packed = PackedEntry::new(self.from, entry.key(), PackedAction::Call(found, &args));
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
                out.push(self.put(UpdateKind::Insert, entry, args));
            }
            EntryChange::Modified(old, new) => {
                // The old result is there until nobody has it: a change needs a free number, as on the chip.
                let args = self.take(new, out)?;
                out.push(self.put(UpdateKind::Modify, new, args));
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
