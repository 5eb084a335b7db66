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
    pub(super) fn decode_action(&self, table: &TableSchema, given: &v1::Action) -> Result<ActionCall, P4RuntimeError> {
        let Some((_, id)) = table.actions.iter().find(|(number, _)| *number == given.action_id) else {
            let name = |(_, id): &(u32, ActionId)| self.actions.get(id.0 as usize).map_or("", |action| &action.name);
            let known: Vec<&str> = table.actions.iter().map(name).collect();
            return Err(P4RuntimeError::invalid(format!(
                "table {}: it has no action with id {:#x}; its actions are {}",
                table.name,
                given.action_id,
                known.join(", ")
            )));
        };
        let action = &self.actions[id.0 as usize];
        let place = |what: &str| format!("table {}, action {}, parameter {what}", table.name, action.name);
        let mut args: Vec<Option<BigUint>> = vec![None; action.params.len()];
        for param in &given.params {
            let guess = (param.param_id as usize).wrapping_sub(1);
            let is_it = |at: usize| action.params.get(at).is_some_and(|known| known.id == param.param_id);
            let at = if is_it(guess) { Some(guess) } else { (0..action.params.len()).find(|at| is_it(*at)) };
            let Some(at) = at else {
                let known: Vec<String> = action.params.iter().map(|p| format!("{} {}", p.id, p.name)).collect();
                return Err(P4RuntimeError::invalid(format!(
                    "table {}, action {}: it has no parameter with id {}; it has {}",
                    table.name,
                    action.name,
                    param.param_id,
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )));
            };
            let known = &action.params[at];
            let value = known.scalar.decode(&param.value, &|| place(&known.name))?;
            if args[at].replace(value).is_some() {
                return Err(P4RuntimeError::invalid(format!(
                    "{}: it is given twice; give it once",
                    place(&known.name)
                )));
            }
        }
        let missing = |at: usize| {
            let known = &action.params[at];
            P4RuntimeError::invalid(format!("{}: it is missing; give param_id {}", place(&known.name), known.id))
        };
        let args = args.into_iter().enumerate().map(|(at, arg)| arg.ok_or_else(|| missing(at)));
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
