//! Shares equal action data: entries refer to a result by number, and a result table stores the
//! data once.
//!
//! A million VMs run on some ten thousand servers. An entry that stores its server's IPv6 address
//! takes 128 bits of action memory, although 16 bits identify one of 65,536 servers. The argument
//! with few distinct values therefore moves to the result table. All other arguments, and the
//! selection of the action, stay in the entry.
//!
//! # Mapping of entries
//! An action with the named argument is replaced by another one, `found`, with the number of a
//! result and all other arguments. The result is the argument's value, as wide as the widest of
//! these arguments. Entries with equal values share a result, which is created with the first of
//! them and removed with the last. An entry is refused if no number is free:
//! [`ResultOptions::values`] is an upper bound that the operator must be able to give (servers of a
//! region, next hops of a network).
//!
//! The transform costs a second lookup, and on a chip a stage. A result table has one action. If it
//! has 2^n entries, one for each value of the number, a chip compares nothing because the number
//! addresses the data. Such a table must fit one stage. More values are stored in several tables
//! ([`ResultOptions::results_per_table`]), and an entry also selects the table.

use super::apply_site::{self, CodeInserter};
use super::entries::{KeyWords, entry_update};
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::undo_map::UndoMap;
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{PackedArgField, PackedEntry, StateUpdate, StoredActionRef, StoredEntry, UpdateKind, action_layout};
use ir::{
    Action, ActionArm, ActionCall, ActionId, ActionRef, BinaryOp, Block, BlockCall, Const, EntityMap, Inst, MatchKey,
    MatchKind, Param, Pipeline, Preamble, TableId, Terminator, Type, Value,
};
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum number of results of a table.
pub const MAX_RESULTS: u64 = 1 << 24;

/// Options of shared results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultOptions {
    /// Name of the argument, in all actions that have it.
    pub argument: String,
    /// Maximum number of distinct values of the argument at a time. `None`: the number in the sizes
    /// ([`value_name`]).
    pub values: Option<u64>,
    /// Results per table, a power of two, to use several tables. The last table has the remaining
    /// ones, rounded up to a power of two. `None`: one table.
    pub results_per_table: Option<u64>,
}

impl ResultOptions {
    /// Creates options for one result table of an argument.
    pub fn for_argument(argument: impl Into<String>, values: Option<u64>) -> ResultOptions {
        ResultOptions { argument: argument.into(), values, results_per_table: None }
    }

    /// Returns the size of each result table, for `values` values.
    fn table_sizes(&self, values: u64) -> Vec<u64> {
        let Some(each) = self.results_per_table.filter(|each| each.is_power_of_two()) else { return vec![values] };
        let rest = Some(values % each).filter(|rest| *rest > 0).map(u64::next_power_of_two);
        std::iter::repeat_n(each, (values / each) as usize).chain(rest).collect()
    }
}

/// Maximum number of result tables.
const MAX_RESULT_TABLES: usize = 64;

/// Returns the key in the sizes for the number of values of an action's argument:
/// `gateway.vm_nc.on_server_v4.server`.
pub fn value_name(action: &str, argument: &str) -> String {
    format!("{action}.{argument}")
}

/// Returns the value names of all arguments of all actions.
pub fn value_names(pipeline: &Pipeline) -> impl Iterator<Item = String> {
    pipeline.actions.values().flat_map(|action| {
        let name = |param: &Param| value_name(&action.preamble.name, &param.name);
        action.params.iter().map(name)
    })
}

/// Returns the number of values of an argument, summed over a table's actions. `None` if the sizes
/// lack any of them.
pub fn known_value_count(pipeline: &Pipeline, sizes: &TableSizes, table: &ir::Table, argument: &str) -> Option<u64> {
    let actions =
        table.actions.iter().filter(|listed| !listed.default_only).map(|listed| &pipeline.actions[listed.action]);
    let mut sum = None;
    for action in actions.filter(|action| action.params.iter().any(|param| param.name == argument)) {
        let values = sizes.get(&value_name(&action.preamble.name, argument))?;
        sum = Some(sum.unwrap_or(0u64).saturating_add(*values));
    }
    sum
}

/// Returns the name of the result table of a table.
pub fn results_name(table: &str) -> String {
    format!("{table}_results")
}

/// Returns the bits that `count` numbers need.
fn bits_for(count: u64) -> u32 {
    (64 - count.saturating_sub(1).leading_zeros()).max(1)
}

/// An action with an argument that moves to the results.
struct SharedAction {
    from: ActionId,
    /// Replacement action: the table if there are several, the number, and all other arguments.
    found: ActionId,
    /// Position of the argument.
    at: usize,
    ty: Type,
}

/// Moves an argument of a table (control-plane name) to result tables.
///
/// # Errors
/// [`TransformError`]: no action has the argument, a default action could have it, or there are
/// more results than [`MAX_RESULTS`].
pub fn share_results(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    table: &str,
    options: &ResultOptions,
) -> Result<TransformedPipeline, TransformError> {
    let id = apply_site::find_table(original, table)?;
    let declared = apply_site::check_movable(original, id)?;
    let site = apply_site::find_apply_site(original, id)?;
    let with_argument = actions_with_argument(original, declared, &options.argument)?;
    let values =
        options.values.or_else(|| known_value_count(original, sizes, declared, &options.argument)).unwrap_or(0);
    let table_sizes = result_table_sizes(table, options, values)?;
    let number = Type::Bit(bits_for(table_sizes[0].max(table_sizes[table_sizes.len() - 1])));
    // Several result tables: an entry also says which of them has its result.
    let part = (table_sizes.len() > 1).then(|| Type::Bit(bits_for(table_sizes.len() as u64)));

    let mut transformed = (**original).clone();
    let shared = add_found_actions(&mut transformed, table, &with_argument, part, number);
    let widest = Type::Bit(shared.iter().map(|shared| shared.ty.width()).max().unwrap_or(1));
    let value = Param::new(options.argument.clone(), widest);
    let value_action =
        add_hidden_action(&mut transformed, format!("{}_value", results_name(table)), vec![value], declared.loc);
    let results: Vec<TableId> = table_sizes
        .iter()
        .enumerate()
        .map(|(n, size)| {
            let suffix = if table_sizes.len() == 1 { "results".to_owned() } else { format!("results_{n}") };
            transformed.tables.push(result_table(declared, &suffix, number, value_action, *size))
        })
        .collect();
    let entries = &mut transformed.tables[id];
    (entries.entries, entries.const_entries) = (Vec::new(), false);
    let is_replaced = |action: ActionId| shared.iter().any(|shared| shared.from == action);
    entries.actions.retain(|listed| !is_replaced(listed.action));
    let found = |shared: &SharedAction| ActionRef { table_only: true, ..ActionRef::new(shared.found) };
    entries.actions.splice(0..0, shared.iter().map(found));

    let actions = transformed.actions.clone();
    let body = &mut transformed.controls[site.control].body;
    let (keys, arms, loc) = apply_site::take_apply(body, site.block, table)?;
    // The arms of the replaced actions go behind the lookup of the result; the others stay.
    let (here, others): (Vec<ActionArm>, Vec<ActionArm>) = arms.into_iter().partition(|arm| is_replaced(arm.action));
    let mut code = CodeInserter { body, block: site.block, loc };
    let lookup = ResultLookup { actions: &actions, results: &results, to: value_action, part, number, shared: &shared };
    let arms = lookup.emit_lookup(&mut code, &here);
    code.block = site.block;
    code.set_terminator(Terminator::Apply { table: id, keys, arms: arms.into_iter().chain(others).collect() });

    let rule = SharedResults {
        name: table.to_owned(),
        from: id,
        results: results.clone(),
        results_per_table: table_sizes[0],
        parts: usize::from(part.is_some()),
        to: value_action,
        words: action_layout(&transformed, value_action).iter().map(|field| field.words).sum(),
        arg_maps: arg_maps(original, &transformed, &shared),
        capacity: table_sizes.iter().sum(),
        number_by_value: UndoMap::new(),
        free_numbers: Vec::new(),
        next_number: 0,
        number_log: Vec::new(),
    };
    let numbers = original.tables.keys().collect();
    let names: Vec<String> = results.iter().map(|table| transformed.tables[*table].preamble.name.clone()).collect();
    let written: Vec<TableId> = std::iter::once(id).chain(results).collect();
    let (map, pipeline) = ShadowedMap::new(original, transformed, numbers, &written, rule)?;
    let mut sizes = sizes.clone();
    sizes.extend(names.into_iter().zip(table_sizes));
    Ok(TransformedPipeline { pipeline, sizes, map: Box::new(map) })
}

/// Returns the number of results of each result table, for `room` results in all.
fn result_table_sizes(table: &str, options: &ResultOptions, room: u64) -> Result<Vec<u64>, TransformError> {
    if !(1..=MAX_RESULTS).contains(&room) {
        let argument = &options.argument;
        let reason =
            format!("there can be 1 to {MAX_RESULTS} values of {argument}, not {room}; say how many there are");
        return Err(TransformError::new(table, reason));
    }
    let each = options.table_sizes(room);
    if each.len() > MAX_RESULT_TABLES {
        let (count, of) = (each.len(), each[0]);
        let reason = format!("{count} tables of {of} results are more than {MAX_RESULT_TABLES}");
        return Err(TransformError::new(table, reason));
    }
    Ok(each)
}

/// Returns the actions that have the argument, each with its position. Refuses a default action
/// that has it, now or after a write.
fn actions_with_argument(
    pipeline: &Pipeline,
    table: &ir::Table,
    argument: &str,
) -> Result<Vec<(ActionId, usize)>, TransformError> {
    let refused = |reason: String| Err(TransformError::new(&table.preamble.name, reason));
    let listed: Vec<&ActionRef> = table.actions.iter().filter(|listed| !listed.default_only).collect();
    let position = |action: ActionId| pipeline.actions[action].params.iter().position(|param| param.name == argument);
    let matching: Vec<_> = listed.iter().filter_map(|listed| Some((listed.action, position(listed.action)?))).collect();
    if matching.is_empty() {
        let names = listed.iter().flat_map(|listed| &pipeline.actions[listed.action].params);
        let names: BTreeSet<&str> = names.map(|param| param.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        return refused(format!("no action of its entries has an argument {argument}; there are {}", names.join(", ")));
    }
    let may_be_default = |listed: &&&ActionRef| !listed.table_only && position(listed.action).is_some();
    let default_may_get_it = !table.const_default && listed.iter().any(|listed| may_be_default(&listed));
    if default_may_get_it || matching.iter().any(|(action, _)| *action == table.default_action.action) {
        return refused(format!(
            "its default action has, or may come to have, the argument {argument}, and a default action has no result; make it const, with \
             another action"
        ));
    }
    Ok(matching)
}

fn add_hidden_action(pipeline: &mut Pipeline, name: String, params: Vec<Param>, loc: ir::SourceLoc) -> ActionId {
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    pipeline.actions.push(Action { preamble, params, loc })
}

/// Adds a replacement for each action with the argument, at this position. Its parameters are the
/// result table (type `part`, if there are several), the result (type `number`) and all others.
fn add_found_actions(
    pipeline: &mut Pipeline,
    table: &str,
    with_argument: &[(ActionId, usize)],
    part: Option<Type>,
    number: Type,
) -> Vec<SharedAction> {
    let mut out = Vec::new();
    for (from, position) in with_argument {
        let action = pipeline.actions[*from].clone();
        let ty = action.params[*position].ty;
        let others = action.params.iter().enumerate().filter(|(n, _)| n != position).map(|(_, param)| param);
        let others = others.map(|param| Param::new(param.name.clone(), param.ty));
        let location = part.map(|part| Param::new("part", part)).into_iter().chain([Param::new("result", number)]);
        let params = location.chain(others).collect();
        let short = action.preamble.name.rsplit('.').next().unwrap_or_default();
        let found = add_hidden_action(pipeline, format!("{table}_found_{short}"), params, action.loc);
        out.push(SharedAction { from: *from, found, at: *position, ty });
    }
    out
}

fn result_table(declared: &ir::Table, suffix: &str, number: Type, action: ActionId, room: u64) -> ir::Table {
    let mut table = apply_site::derived_table(declared, suffix);
    table.keys = vec![MatchKey::new("result", number, MatchKind::Exact)];
    table.actions = vec![ActionRef::new(action)];
    // Never executed, because every number in an entry has a result.
    table.default_action = ActionCall { action, args: vec![BigUint::ZERO] };
    (table.const_default, table.size) = (true, Some(room));
    table
}

/// Code generation for the lookup between an entry and its original action.
struct ResultLookup<'a> {
    actions: &'a EntityMap<ActionId, Action>,
    results: &'a [TableId],
    to: ActionId,
    part: Option<Type>,
    number: Type,
    shared: &'a [SharedAction],
}

impl ResultLookup<'_> {
    /// Returns the types of the parameters that locate a result.
    fn location_types(&self) -> Vec<Type> {
        self.part.into_iter().chain([self.number]).collect()
    }

    /// Returns the types of an entry's other arguments.
    fn other_types(&self, shared: &SharedAction) -> Vec<Type> {
        self.actions[shared.found].params[self.location_types().len()..].iter().map(|param| param.ty).collect()
    }

    /// Emits the arms of the replacement actions: all join at one lookup of the result, after which
    /// each continues with its original action and the arguments of both.
    fn emit_lookup(&self, code: &mut CodeInserter<'_>, here: &[ActionArm]) -> Vec<ActionArm> {
        // Parameters: action number, hit flag, result location, and the other arguments of all
        // actions.
        let which = Type::Bit(bits_for(self.shared.len() as u64));
        let all: Vec<Type> = self.shared.iter().flat_map(|shared| self.other_types(shared)).collect();
        let types = [which, Type::Bool].into_iter().chain(self.location_types()).chain(all.iter().copied());
        let met = code.new_block();
        let given: Vec<Value> = types.map(|ty| code.body.values.push(ty)).collect();
        code.body.blocks[met].params = given.clone();
        let arms = self.emit_arms(code, met, which, &all);
        code.block = met;
        let value = self.emit_value(code, &given[2..2 + self.location_types().len()]);
        self.emit_dispatch(code, &given, value, here);
        arms
    }

    /// Emits an arm for each replacement action. All jump to `join` with the action's number, the
    /// location of the result and the other arguments of all actions in turn, 0 if of another one.
    fn emit_arms(&self, code: &mut CodeInserter<'_>, join: Block, number: Type, all: &[Type]) -> Vec<ActionArm> {
        let (mut arms, mut first_own, locations) = (Vec::new(), 0, self.location_types().len());
        for (n, shared) in self.shared.iter().enumerate() {
            let own_types = self.other_types(shared);
            let types: Vec<Type> = self.location_types().into_iter().chain(own_types.iter().copied()).collect();
            let (block, params) = code.arm_block(&types);
            code.block = block;
            let mut args = vec![code.const_bits(number.width(), n as u64)];
            args.extend(&params[..=locations]);
            for (index, ty) in all.iter().enumerate() {
                let value = match index.checked_sub(first_own).and_then(|own| params.get(own + 1 + locations)) {
                    Some(value) => *value,
                    None => code.push_inst(Inst::Const(Const::new(*ty, 0u8)), *ty),
                };
                args.push(value);
            }
            code.set_terminator(Terminator::Jump(BlockCall { block: join, args }));
            arms.push(ActionArm { action: shared.found, block });
            first_own += own_types.len();
        }
        arms
    }

    /// Emits the lookup of the result and returns its value; the inserter continues after it.
    /// `location` is the number of the table, if there are several, and that in the table.
    fn emit_value(&self, code: &mut CodeInserter<'_>, location: &[Value]) -> Value {
        let widest = self.actions[self.to].params[0].ty;
        let result_block = code.new_block();
        let value = code.body.values.push(widest);
        code.body.blocks[result_block].params = vec![value];
        for (n, table) in self.results.iter().enumerate() {
            let tested = n + 1 < self.results.len();
            let (lookup, next) = if tested { (code.new_block(), code.new_block()) } else { (code.block, code.block) };
            if tested {
                let part = code.const_bits(self.part.map_or(1, Type::width), n as u64);
                let cond = code.push_inst(Inst::Binary(BinaryOp::Eq, location[0], part), Type::Bool);
                code.set_terminator(Terminator::Branch { cond, then: BlockCall::to(lookup), els: BlockCall::to(next) });
            }
            let (hit_block, params) = code.arm_block(&[widest]);
            code.block = lookup;
            let arms = vec![ActionArm { action: self.to, block: hit_block }];
            code.set_terminator(Terminator::Apply { table: *table, keys: vec![location[location.len() - 1]], arms });
            code.block = hit_block;
            code.set_terminator(Terminator::Jump(BlockCall { block: result_block, args: vec![params[1]] }));
            code.block = next;
        }
        code.block = result_block;
        value
    }

    /// Emits the dispatch to the entry's original action, whose arms are `arms`. `joined` has the
    /// parameters of the join ([`ResultLookup::emit_arms`]), `value` is the result.
    fn emit_dispatch(&self, code: &mut CodeInserter<'_>, joined: &[Value], value: Value, arms: &[ActionArm]) {
        let mut next_arg = 2 + self.location_types().len();
        let mut targets = Vec::new();
        for (n, shared) in self.shared.iter().enumerate() {
            let others = &joined[next_arg..][..self.other_types(shared).len()];
            next_arg += others.len();
            let arm = arms.iter().find(|arm| arm.action == shared.from);
            targets.extend(arm.map(|arm| (n, shared, others, arm.block)));
        }
        for (left, (n, shared, others, block)) in
            targets.iter().enumerate().map(|(index, end)| (targets.len() - index - 1, *end))
        {
            let (then, mut after) = (code.new_block(), code.block);
            if left == 0 {
                code.set_terminator(Terminator::Jump(BlockCall::to(then)));
            } else {
                let number = code.const_bits(code.body.value_type(joined[0]).width(), n as u64);
                let cond = code.push_inst(Inst::Binary(BinaryOp::Eq, joined[0], number), Type::Bool);
                after = code.new_block();
                code.set_terminator(Terminator::Branch { cond, then: BlockCall::to(then), els: BlockCall::to(after) });
            }
            code.block = then;
            let value = narrow_value(code, value, shared.ty);
            let mut args: Vec<Value> = others.to_vec();
            args.insert(shared.at, value);
            args.insert(0, joined[1]);
            code.set_terminator(Terminator::Jump(BlockCall { block, args }));
            code.block = after;
        }
    }
}

/// Converts a result to the type of the action's argument.
fn narrow_value(code: &mut CodeInserter<'_>, value: Value, ty: Type) -> Value {
    let bits = code.cast(Type::Bit(ty.width()), value);
    code.cast(ty, bits)
}

/// Mapping of an action's argument words.
struct ArgMap {
    found: ActionId,
    value: PackedArgField,
    /// Words of the original action, and their offset in the arguments of `found`.
    kept: Vec<(PackedArgField, usize)>,
    /// Number of argument words of `found`.
    words: usize,
}

fn arg_maps(first: &Pipeline, second: &Pipeline, shared: &[SharedAction]) -> HashMap<ActionId, ArgMap> {
    let one = |shared: &SharedAction| {
        let (here, there) = (action_layout(first, shared.from), action_layout(second, shared.found));
        let others = here.iter().enumerate().filter(|(n, _)| *n != shared.at);
        let kept = others.zip(&there[there.len() + 1 - here.len()..]);
        let kept = kept.map(|((_, from), to)| (*from, to.offset)).collect();
        let words = there.iter().map(|field| field.words).sum();
        (shared.from, ArgMap { found: shared.found, value: here[shared.at], kept, words })
    };
    shared.iter().map(one).collect()
}

/// Entry mapping of a table with shared results.
struct SharedResults {
    name: String,
    from: TableId,
    results: Vec<TableId>,
    /// Results of each table except the last.
    results_per_table: u64,
    /// 1 if the first word of an entry's arguments selects the table, else 0.
    parts: usize,
    /// Action of results, and the number of words of its value.
    to: ActionId,
    words: usize,
    arg_maps: HashMap<ActionId, ArgMap>,
    capacity: u64,
    /// Number and reference count, by the words of the value.
    number_by_value: UndoMap<KeyWords, (u64, u64)>,
    /// Freed numbers, and the first number never used.
    free_numbers: Vec<u64>,
    next_number: u64,
    /// Undo log of numbers.
    number_log: Vec<NumberChange>,
}

/// Change of a number.
enum NumberChange {
    New,
    Reused(u64),
    Freed,
}

impl SharedResults {
    /// Returns the argument mapping of the entry's action, its value, and its other arguments.
    /// `None` if its action has no result.
    fn split_args(&self, entry: &StoredEntry) -> Option<(&ArgMap, KeyWords, Vec<u64>)> {
        let StoredActionRef::Call(action, args) = entry.action() else { return None };
        let place = self.arg_maps.get(&action)?;
        let own = &args[place.value.offset..place.value.offset + place.value.words];
        let value = own.iter().copied().chain(std::iter::repeat(0)).take(self.words).collect();
        let mut kept = vec![0; place.words];
        for (from, to) in &place.kept {
            kept[*to..to + from.words].copy_from_slice(&args[from.offset..from.offset + from.words]);
        }
        Some((place, value, kept))
    }

    /// Counts a use of an entry's result, inserting a new one. Returns its action's replacement
    /// with packed arguments; `None` if the action has no shared argument.
    fn acquire_result(
        &mut self,
        entry: &StoredEntry,
        out: &mut Vec<StateUpdate>,
    ) -> Result<Option<(ActionId, Vec<u64>)>, String> {
        let Some((shared, value, mut args)) = self.split_args(entry) else { return Ok(None) };
        let replacement = shared.found;
        let (number, count) = match self.number_by_value.get(&value) {
            Some(known) => *known,
            None => {
                let number = self.allocate_number()?;
                let (table, index) = self.result_location(number);
                let result = PackedEntry::new(table, &[index], StoredActionRef::Call(self.to, &value));
                out.push(StateUpdate::Packed(UpdateKind::Insert, result));
                (number, 0)
            }
        };
        self.number_by_value.insert(value, (number, count + 1));
        args[0] = number / self.results_per_table;
        args[self.parts] = number % self.results_per_table;
        Ok(Some((replacement, args)))
    }

    /// Returns the table of a result, and its number there.
    fn result_location(&self, number: u64) -> (TableId, u64) {
        let at = (number / self.results_per_table) as usize;
        (self.results[at.min(self.results.len() - 1)], number % self.results_per_table)
    }

    /// Releases the result of an entry.
    fn release_result(&mut self, entry: &StoredEntry, out: &mut Vec<StateUpdate>) {
        let Some((_, value, _)) = self.split_args(entry) else { return };
        let Some((number, count)) = self.number_by_value.get(&value).copied() else { return };
        if count > 1 {
            self.number_by_value.insert(value, (number, count - 1));
            return;
        }
        self.number_by_value.remove(&value);
        self.free_numbers.push(number);
        self.number_log.push(NumberChange::Freed);
        let (table, at) = self.result_location(number);
        out.push(StateUpdate::Packed(UpdateKind::Delete, PackedEntry::identity(table, &[at])));
    }

    fn allocate_number(&mut self) -> Result<u64, String> {
        if let Some(number) = self.free_numbers.pop() {
            self.number_log.push(NumberChange::Reused(number));
            return Ok(number);
        }
        if self.next_number == self.capacity {
            return Err(format!(
                "table {}: its table of results is full ({} of them), and no entry gives what this one does; delete entries, or make room for more \
                 results",
                self.name, self.capacity
            ));
        }
        self.number_log.push(NumberChange::New);
        self.next_number += 1;
        Ok(self.next_number - 1)
    }

    /// Returns the update of an entry with an existing result.
    fn mapped_update(&self, kind: UpdateKind, entry: &StoredEntry, has: Option<(ActionId, Vec<u64>)>) -> StateUpdate {
        let Some((found, args)) = has else {
            return entry_update(kind, self.from, entry.key(), entry, entry.priority());
        };
        let packed = PackedEntry::new(self.from, entry.key(), StoredActionRef::Call(found, &args));
        StateUpdate::Packed(kind, packed.with_attributes_of(entry).with_priority(entry.priority()))
    }
}

impl EntryMapping for SharedResults {
    fn is_mapped(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin_batch(&mut self) {
        self.number_by_value.begin_batch();
        self.number_log.clear();
    }

    fn undo_batch(&mut self) {
        self.number_by_value.undo_batch();
        while let Some(number) = self.number_log.pop() {
            match number {
                NumberChange::New => self.next_number -= 1,
                NumberChange::Reused(number) => self.free_numbers.push(number),
                NumberChange::Freed => {
                    self.free_numbers.pop();
                }
            }
        }
    }

    /// Appends the changes of the transformed table and of the result tables to `out`.
    fn map_entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => {
                let args = self.acquire_result(entry, out)?;
                out.push(self.mapped_update(UpdateKind::Insert, entry, args));
            }
            EntryChange::Modified(old, new) => {
                // Acquires the new result before it releases the old one, so an update needs a free
                // number, as on the chip.
                let args = self.acquire_result(new, out)?;
                out.push(self.mapped_update(UpdateKind::Modify, new, args));
                self.release_result(old, out);
            }
            EntryChange::Deleted(entry) => {
                out.push(entry_update(UpdateKind::Delete, self.from, entry.key(), entry, entry.priority()));
                self.release_result(entry, out);
            }
        }
        Ok(())
    }

    fn stats(&self) -> Vec<(String, f64)> {
        vec![
            (format!("{}: results", self.name), self.number_by_value.len() as f64),
            (format!("{}: room for results", self.name), self.capacity as f64),
        ]
    }
}
