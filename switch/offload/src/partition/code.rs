//! Code generation that both halves use.

use ir::{
    Arch, Body, BodyBuilder, ExternArg, ExternFn, Pipeline, SourceLoc, Terminator, TerminatorData, Type, Value, VarId,
    VarKind,
};

/// Variables with the ingress port in a parser, by architecture.
pub const PARSER_PORTS: [&str; 2] = ["standard_metadata.ingress_port", "parser_istd.input_port"];
/// Variables with the ingress port in the control that is partitioned, by architecture.
pub const MAIN_PORTS: [&str; 2] = ["standard_metadata.ingress_port", "istd.input_port"];

/// Adds a variable to the program's metadata.
pub fn add_metadata(pipeline: &mut Pipeline, name: &str, ty: Type) -> VarId {
    // Variables declared after the intrinsics can belong to the pre control.
    let mut own = pipeline.vars.values().take_while(|var| var.kind != VarKind::Intrinsic);
    let known = own.find(|var| var.kind == VarKind::Meta).and_then(|var| var.name.split(['.', '[']).next());
    let name = format!("{}.terrace_{name}", known.unwrap_or("meta"));
    pipeline.add_var(name, ty, VarKind::Meta, SourceLoc::default())
}

/// Emits a test whether the packet arrived on a port. `names` are the variables with the ingress port,
/// by architecture.
pub fn arrived_on(p: &Pipeline, port: u32, names: &[&str], b: &mut BodyBuilder) -> Option<Value> {
    let var = *names.iter().find_map(|name| p.intrinsics.get(*name))?;
    let found = b.load(p, var);
    let port = b.bits(p.vars[var].ty.width(), port);
    Some(b.eq(found, port))
}

/// Sends the packet to a 32-bit port number.
pub fn send_to_port(p: &Pipeline, port: Value, b: &mut BodyBuilder) {
    match p.arch {
        Arch::Pna => {
            b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
        }
        Arch::V1Model => {
            set_v1model_metadata(p, "egress_spec", port, b);
            let none = b.bits(32, 0u8);
            set_v1model_metadata(p, "mcast_grp", none, b);
        }
    }
}

/// Drops the packet.
pub fn drop_packet(p: &Pipeline, b: &mut BodyBuilder) {
    let drop = match p.arch {
        Arch::Pna => ExternFn::DropPacket,
        Arch::V1Model => ExternFn::MarkToDrop,
    };
    b.call_extern(None, drop, Vec::new(), &[]);
}

/// Stores a 32-bit value to a variable of v1model's standard metadata.
fn set_v1model_metadata(p: &Pipeline, name: &str, value: Value, b: &mut BodyBuilder) {
    if let Some(var) = p.intrinsics.get(&format!("standard_metadata.{name}")) {
        let value = b.cast(p.vars[*var].ty, value);
        b.store(*var, value);
    }
}

/// Returns an empty body.
pub fn empty_body() -> Body {
    let mut body = Body::default();
    let data = ir::BlockData {
        term: Some(TerminatorData { term: Terminator::Return, loc: ir::SourceLoc::default() }),
        ..Default::default()
    };
    body.entry = Some(body.blocks.push(data));
    body
}

/// Adds an entry that runs other code and returns if a condition holds. Without a condition
/// (`None`) the body is unchanged.
pub fn branch_before(
    body: Body,
    condition: impl FnOnce(&mut BodyBuilder) -> Option<Value>,
    other: impl FnOnce(&mut BodyBuilder),
) -> Body {
    let Some(old_entry) = body.entry else { return body };
    let mut b = BodyBuilder::resume(body);
    let (entry, other_block) = (b.create_block(), b.create_block());
    b.switch_to(entry);
    let holds = condition(&mut b);
    if let Some(holds) = holds {
        b.branch(holds, other_block, old_entry);
        b.switch_to(other_block);
        other(&mut b);
        b.ret();
    }
    let mut body = b.finish();
    body.entry = Some(if holds.is_some() { entry } else { old_entry });
    body
}
