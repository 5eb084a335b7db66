//! Inference of port names without a configuration: strings of a type are ports if an action sends
//! packets to a parameter of this type.

use super::string_type;
use ir::{ActionId, Inst, Pipeline, Terminator, VarId};
use std::collections::BTreeSet;

/// Returns the spaces of action parameters that are assigned to `egress_spec`, possibly with a
/// cast.
pub(super) fn infer_port_spaces(pipeline: &Pipeline) -> BTreeSet<String> {
    let Some(egress) = pipeline.intrinsics.get("standard_metadata.egress_spec").copied() else {
        return BTreeSet::new();
    };
    let mut spaces = BTreeSet::new();
    for control in pipeline.controls.values() {
        for block in control.body.blocks.values() {
            let Some(Terminator::Apply { arms, .. }) = block.term.as_ref().map(|term| &term.term) else { continue };
            for arm in arms {
                let Some(target) = control.body.blocks.get(arm.block) else { continue };
                add_port_spaces(pipeline, arm.action, target, egress, &mut spaces);
            }
        }
    }
    spaces
}

/// Adds the spaces of the parameters that an action's block sends packets to: those whose value,
/// through casts, is stored to `egress`, the variable of the output port. The parameters follow the
/// `hit` parameter of the block.
fn add_port_spaces(
    pipeline: &Pipeline,
    action: ActionId,
    block: &ir::BlockData,
    egress: VarId,
    spaces: &mut BTreeSet<String>,
) {
    let Some(action) = pipeline.actions.get(action) else { return };
    let arguments = &block.params[block.params.len().saturating_sub(action.params.len())..];
    let mut param_values: Vec<(ir::Value, usize)> = arguments.iter().copied().zip(0..).collect();
    for data in &block.insts {
        let param_of =
            |value: ir::Value| param_values.iter().find(|(known, _)| *known == value).map(|(_, param)| *param);
        match &data.inst {
            Inst::Cast(_, value) => {
                let cast_param = param_of(*value).zip(data.results.first());
                param_values.extend(cast_param.map(|(param, result)| (*result, param)));
            }
            Inst::Store(var, value) if *var == egress => {
                let name = param_of(*value).and_then(|param| action.params.get(param)?.type_name.as_deref());
                let ty = name.and_then(|name| pipeline.named_types.iter().find(|(other, _)| other == name));
                let space = ty.and_then(|(name, ty)| string_type(pipeline, name, ty));
                spaces.extend(space.map(|(key, _)| key.to_owned()));
            }
            _ => {}
        }
    }
}
