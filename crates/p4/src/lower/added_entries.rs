//! Lowers calls that add entries (PNA `add_entry`, and `terrace.p4`), and pools of ports.

use super::lowering::{LowerResult, Lowering, TableContext};
use super::value::RValue;
use crate::hir::{Call, Construct, Ty};
use ir::{BlockCall, ExternArg, ExternFn, ExternKind, Type};

impl Lowering<'_> {
    /// Lowers `add_entry(action name, parameters, profile)`; these arguments start at index
    /// `first_arg`. Returns a bool: whether the entry was added.
    pub(super) fn add_entry(&mut self, call: &Call, first_arg: usize) -> LowerResult<RValue> {
        let context = self.calling_table("add_entry", call.span)?;
        let mut args = vec![ExternArg::Table(context.ir)];
        args.extend(self.action_args(&context, call, first_arg)?);
        args.push(ExternArg::Value(self.scalar_arg(call, first_arg + 2)?));
        Ok(RValue::Scalar(self.builder.call_extern(None, ExternFn::AddEntry, args, &[Type::Bool])[0]))
    }

    /// Lowers `add_entry_pair(action name, parameters, twin's key, twin's action name, its
    /// parameters, profile)`. Returns a bool: whether both entries were added.
    pub(super) fn add_entry_pair(&mut self, call: &Call) -> LowerResult<RValue> {
        let context = self.calling_table("add_entry_pair", call.span)?;
        let mut args = vec![ExternArg::Table(context.ir)];
        args.extend(self.action_args(&context, call, 0)?);
        let key = self.twin_key(&context, call, 2)?;
        let twin = self.action_args(&context, call, 3)?;
        args.push(ExternArg::Value(self.scalar_arg(call, 5)?));
        args.push(ExternArg::Values(key));
        args.extend(twin);
        Ok(RValue::Scalar(self.builder.call_extern(None, ExternFn::AddEntry, args, &[Type::Bool])[0]))
    }

    /// Returns the fields of a twin's key, argument `n`: those of the table's key, in order.
    fn twin_key(&mut self, context: &TableContext, call: &Call, n: usize) -> LowerResult<Vec<ir::Value>> {
        let ExternArg::Values(values) = self.data_arg(call, n)? else { return Ok(Vec::new()) };
        let table = &self.pipeline.tables[context.ir];
        let types: Vec<Type> = table.keys.iter().map(|key| key.ty).collect();
        let widths: Vec<u32> = values.iter().map(|value| self.builder.value_type(*value).width()).collect();
        if widths != types.iter().map(|ty| ty.width()).collect::<Vec<u32>>() {
            let name = &self.hir.tables[context.hir.index()].name;
            let expected: Vec<String> = types.iter().map(|ty| ty.width().to_string()).collect();
            let found: Vec<String> = widths.iter().map(u32::to_string).collect();
            let message = format!(
                "the twin's key has fields of {} bits, and the key of table `{name}` has fields of {} bits",
                found.join(", "),
                expected.join(", ")
            );
            return self.error("twin-key", call.span, message);
        }
        Ok(values.into_iter().zip(types).map(|(value, ty)| self.builder.cast(ty, value)).collect())
    }

    /// Returns the action that argument `first_arg` names, one of the table's actions, and its
    /// parameters, the argument behind it.
    fn action_args(&mut self, context: &TableContext, call: &Call, first_arg: usize) -> LowerResult<[ExternArg; 2]> {
        let name = self.text_arg(call, first_arg)?;
        let decl = &self.hir.tables[context.hir.index()];
        let action = decl.actions.iter().position(|a| self.hir.actions[a.action.index()].name == name);
        // Both lists have the same order, so an index in the typed program is valid in the IR.
        let action = action.and_then(|n| self.pipeline.tables[context.ir].actions.get(n)).map(|a| a.action);
        let Some(action) = action else {
            let message = format!("table `{}` has no action `{name}`", decl.name);
            return self.error("unknown-action", call.span, message);
        };
        let values = match self.data_arg(call, first_arg + 1)? {
            ExternArg::Values(values) => values,
            ExternArg::Value(value) => vec![value],
            _ => Vec::new(),
        };
        let types: Vec<Type> = self.pipeline.actions[action].params.iter().map(|p| p.ty).collect();
        if types.len() != values.len() {
            let message = format!("action `{name}` takes {} parameters, not {}", types.len(), values.len());
            return self.error("missing-argument", call.span, message);
        }
        let values = values.into_iter().zip(types).map(|(value, ty)| self.builder.cast(ty, value)).collect();
        Ok([ExternArg::Action(action), ExternArg::Values(values)])
    }

    /// Lowers `add_entry_if(condition, ...)`, which returns false if the condition is false.
    pub(super) fn add_entry_if(&mut self, call: &Call) -> LowerResult<RValue> {
        let condition = self.scalar_arg(call, 0)?;
        let (yes, join) = (self.builder.create_block(), self.builder.create_block());
        let result = self.builder.append_param(join, Type::Bool);
        self.builder.branch_with(condition, BlockCall::to(yes), Self::call_with_arg(join, condition));
        self.builder.switch_to(yes);
        let added = self.add_entry(call, 1);
        let added = match added {
            Ok(RValue::Scalar(added)) => added,
            _ => condition,
        };
        self.builder.jump_with(join, vec![added]);
        self.builder.switch_to(join);
        Ok(RValue::Scalar(result))
    }

    /// Returns the pool that `PortPool(addresses, subscribers, spaces, rest in seconds)` creates.
    pub(super) fn build_port_pool(&mut self, construct: &Construct) -> LowerResult<ExternKind> {
        let mut numbers = [0; 4];
        for (index, number) in numbers.iter_mut().enumerate() {
            let given = self.number_constructor_arg(construct, index)?;
            *number = match u32::try_from(given) {
                Ok(number) => number,
                Err(_) => return self.error("port-pool", construct.span, format!("{given} does not fit in 32 bits")),
            };
        }
        let [addresses, subscribers, spaces, rest_seconds] = numbers;
        if addresses == 0 || addresses > MAX_POOL_ADDRESSES || subscribers == 0 || !(1..=MAX_SPACES).contains(&spaces) {
            let message = format!(
                "a pool has 1 to {MAX_POOL_ADDRESSES} addresses, a subscriber at least, and 1 to {MAX_SPACES} spaces"
            );
            return self.error("port-pool", construct.span, message);
        }
        Ok(ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds })
    }

    /// Lowers `PortPool.take`; `result` is its struct of status, address and port.
    pub(super) fn take_port(&mut self, pool: ir::ExternId, call: &Call, result: Ty) -> LowerResult<RValue> {
        let mut args = Vec::new();
        for index in 0..6 {
            args.push(ExternArg::Value(self.scalar_arg(call, index)?));
        }
        let types = [8, 32, 16].map(Type::Bit);
        let values = self.builder.call_extern(Some(pool), ExternFn::PortPoolTake, args, &types);
        let ty = self.substitute_scope_params(result);
        Ok(self.build_from_scalars(ty, &mut values.into_iter()))
    }

    /// Returns the quota that `EntryQuota(owners)` creates.
    pub(super) fn build_entry_quota(&mut self, construct: &Construct) -> LowerResult<ExternKind> {
        let owners = self.number_constructor_arg(construct, 0)?;
        if !(1..=MAX_QUOTA_OWNERS).contains(&owners) {
            let message = format!("a quota has 1 to {MAX_QUOTA_OWNERS} owners, not {owners}");
            return self.error("entry-quota", construct.span, message);
        }
        Ok(ExternKind::EntryQuota { owners: owners as u32 })
    }

    /// Lowers `EntryQuota.take`.
    pub(super) fn take_quota(&mut self, quota: ir::ExternId, call: &Call) -> LowerResult<RValue> {
        let args = vec![ExternArg::Value(self.scalar_arg(call, 0)?), ExternArg::Value(self.scalar_arg(call, 1)?)];
        let taken = self.builder.call_extern(Some(quota), ExternFn::EntryQuotaTake, args, &[Type::Bool]);
        Ok(RValue::Scalar(taken[0]))
    }
}

/// Maximum number of owners of a quota: a quota has 8 bytes for each.
const MAX_QUOTA_OWNERS: u64 = 1 << 24;
/// Maximum number of addresses of a pool: its blocks of ports have numbers of 32 bits.
const MAX_POOL_ADDRESSES: u32 = 1 << 20;
/// Maximum number of port spaces of a pool.
const MAX_SPACES: u32 = 16;
