//! Actions with their arguments: `Action` to [`ActionCall`], and back.

use super::scalar::words;
use super::schema::{Schema, TableSchema};
use crate::P4RuntimeError;
use crate::proto::v1;
use entries::words_for;
use ir::{ActionCall, ActionId};
use num_bigint::BigUint;

impl Schema {
    /// Decodes an action of a table with its arguments (section "Action Specification"). The write
    /// checks later whether entries or the default action can use it.
    pub(super) fn decode_action(
        &self,
        table: &TableSchema,
        message: &v1::Action,
    ) -> Result<ActionCall, P4RuntimeError> {
        let Some((_, id)) = table.actions.iter().find(|(number, _)| *number == message.action_id) else {
            let name = |(_, id): &(u32, ActionId)| self.actions.get(id.0 as usize).map_or("", |action| &action.name);
            let declared: Vec<&str> = table.actions.iter().map(name).collect();
            return Err(P4RuntimeError::invalid(format!(
                "table {}: it has no action with id {:#x}; its actions are {}",
                table.name,
                message.action_id,
                declared.join(", ")
            )));
        };
        let action = &self.actions[id.0 as usize];
        let error_place = |name: &str| format!("table {}, action {}, parameter {name}", table.name, action.name);
        let mut args: Vec<Option<BigUint>> = vec![None; action.params.len()];
        for param in &message.params {
            // Compilers number parameters from 1 in order, so the id mostly gives the position.
            let usual_index = (param.param_id as usize).wrapping_sub(1);
            let has_id = |index: usize| action.params.get(index).is_some_and(|declared| declared.id == param.param_id);
            let index = if has_id(usual_index) {
                Some(usual_index)
            } else {
                (0..action.params.len()).find(|index| has_id(*index))
            };
            let Some(index) = index else {
                let declared: Vec<String> = action.params.iter().map(|p| format!("{} {}", p.id, p.name)).collect();
                return Err(P4RuntimeError::invalid(format!(
                    "table {}, action {}: it has no parameter with id {}; it has {}",
                    table.name,
                    action.name,
                    param.param_id,
                    if declared.is_empty() { "none".to_owned() } else { declared.join(", ") }
                )));
            };
            let declared = &action.params[index];
            let value = declared.scalar.decode(&param.value, &|| error_place(&declared.name))?;
            if args[index].replace(value).is_some() {
                return Err(P4RuntimeError::invalid(format!(
                    "{}: it is given twice; give it once",
                    error_place(&declared.name)
                )));
            }
        }
        let missing = |index: usize| {
            let declared = &action.params[index];
            P4RuntimeError::invalid(format!(
                "{}: it is missing; give param_id {}",
                error_place(&declared.name),
                declared.id
            ))
        };
        let args = args.into_iter().enumerate().map(|(index, arg)| arg.ok_or_else(|| missing(index)));
        Ok(ActionCall { action: *id, args: args.collect::<Result<_, _>>()? })
    }

    /// Encodes an action with its arguments in words, in the layout of [`entries::action_layout`].
    pub(super) fn action_message(&self, id: ActionId, mut words: &[u64]) -> v1::Action {
        let Some(action) = self.actions.get(id.0 as usize) else { return v1::Action::default() };
        let param = |param: &super::schema::ParamSchema| {
            let count = words_for(param.scalar.width()).min(words.len());
            let (value, rest) = words.split_at(count);
            words = rest;
            v1::action::Param { param_id: param.id, value: param.scalar.encode(value) }
        };
        v1::Action { action_id: action.number, params: action.params.iter().map(param).collect() }
    }

    /// Encodes an action with its arguments.
    pub(super) fn call_message(&self, call: &ActionCall) -> v1::Action {
        let Some(action) = self.actions.get(call.action.0 as usize) else { return v1::Action::default() };
        let param = |(param, arg): (&super::schema::ParamSchema, &BigUint)| v1::action::Param {
            param_id: param.id,
            value: param.scalar.encode(&words(arg, param.scalar.width())),
        };
        v1::Action { action_id: action.number, params: action.params.iter().zip(&call.args).map(param).collect() }
    }
}
