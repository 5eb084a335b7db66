//! Numbers values in the order of their definitions and drops values without a definition.

use crate::body::Body;
use crate::entity::{Entity, EntityMap, Value};
use crate::pipeline::Pipeline;

pub(super) fn renumber_values(pipeline: &mut Pipeline) {
    pipeline.controls.values_mut().for_each(|c| renumber_body(&mut c.body));
}

fn renumber_body(body: &mut Body) {
    let mut values = EntityMap::new();
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    for data in body.blocks.values_mut() {
        for value in data.params.iter_mut().chain(data.insts.iter_mut().flat_map(|i| &mut i.results)) {
            let new = values.push(body.values[*value]);
            renamed[value.index()] = Some(new);
            *value = new;
        }
    }
    for data in body.blocks.values_mut() {
        let find = |v: Value| renamed.get(v.index()).copied().flatten().unwrap_or(v);
        data.insts.iter_mut().for_each(|i| i.inst.map_values(find));
        if let Some(term) = &mut data.term {
            term.term.map_values(find);
        }
    }
    body.values = values;
}
