//! Code that the upper and the lower part are both made with.

use ir::{Arch, Arg, Body, BodyBuilder, ExternFn, Loc, Pipeline, Term, TermData, Type, Value, VarId, VarKind};

/// Adds a variable to the program's metadata, beside its own.
pub fn add_metadata(pipeline: &mut Pipeline, name: &str, ty: Type) -> VarId {
    // What is declared behind the architecture's variables may be the pre control's.
    let mut own = pipeline.vars.values().take_while(|var| var.kind != VarKind::Intrinsic);
    let known = own.find(|var| var.kind == VarKind::Meta).and_then(|var| var.name.split(['.', '[']).next());
    let name = format!("{}.terrace_{name}", known.unwrap_or("meta"));
    pipeline.add_var(name, ty, VarKind::Meta, Loc::default())
}

/// Sends the packet to a port, a number of 32 bits.
pub fn send(p: &Pipeline, port: Value, b: &mut BodyBuilder) {
    match p.arch {
        Arch::Pna => {
            b.call(None, ExternFn::SendToPort, vec![Arg::Value(port)], &[]);
        }
        Arch::V1Model => {
            set(p, "egress_spec", port, b);
            let none = b.bits(32, 0u8);
            set(p, "mcast_grp", none, b);
        }
    }
}

/// Drops the packet.
pub fn drop(p: &Pipeline, b: &mut BodyBuilder) {
    let drop = match p.arch {
        Arch::Pna => ExternFn::DropPacket,
        Arch::V1Model => ExternFn::MarkToDrop,
    };
    b.call(None, drop, Vec::new(), &[]);
}

/// Sets a number of v1model's metadata to one of 32 bits.
fn set(p: &Pipeline, name: &str, value: Value, b: &mut BodyBuilder) {
    if let Some(var) = p.intrinsics.get(&format!("standard_metadata.{name}")) {
        let value = b.cast(p.vars[*var].ty, value);
        b.store(*var, value);
    }
}

/// A body that does nothing.
pub fn nothing() -> Body {
    let mut body = Body::default();
    let data =
        ir::BlockData { term: Some(TermData { term: Term::Return, loc: ir::Loc::default() }), ..Default::default() };
    body.entry = Some(body.blocks.push(data));
    body
}
