//! Runs the gateway program on the interpreter with the entries of a region.

use interp::{Config, Interp};
use packet::{DropReason, PacketOrigin, Verdict};
use region::{IdAssignments, ResolvedRegion};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::ModelVerdict;

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program of the repository.
///
/// # Errors
/// The diagnostics of the program.
pub fn compile(path: &Path) -> anyhow::Result<ir::Pipeline> {
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root().join("programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, path, &options);
    compiled.pipeline.ok_or_else(|| {
        let lines: Vec<String> = compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
        anyhow::anyhow!("{} is refused:\n{}", path.display(), lines.join("\n"))
    })
}

/// Returns the gateway program, compiled once in a process.
///
/// # Errors
/// If it does not compile.
pub fn pipeline() -> anyhow::Result<Arc<ir::Pipeline>> {
    static COMPILED: Mutex<Option<Arc<ir::Pipeline>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.is_none() {
        *compiled = Some(Arc::new(compile(&root().join("programs/gateway/gateway.p4"))?));
    }
    Ok(compiled.clone().expect("compiled above"))
}

/// Compiles the gateway program as a switch runs it: without second passes.
///
/// # Errors
/// If it does not compile.
pub fn switch_pipeline() -> anyhow::Result<Arc<ir::Pipeline>> {
    Ok(ir::passes::without_recirculation(&pipeline()?))
}

/// Creates a gateway for a region.
///
/// # Errors
/// If the region's entries are refused.
pub fn gateway_engine(pipeline: Arc<ir::Pipeline>, region: &ResolvedRegion) -> anyhow::Result<Interp> {
    let mut numbers = IdAssignments::default();
    let entries = region::entries(region, "region.yaml", &pipeline, &mut numbers)?;
    let mut engine = Interp::new(pipeline, Config::default())?;
    engine.write(&region::diff(region::GatewayEntries::default(), entries))?;
    Ok(engine)
}

/// Converts the outputs of a packet to a verdict of the model. Drop reasons of the engine are
/// errors, because the gateway program declares all its reasons.
///
/// # Errors
/// If the gateway must not return this verdict.
pub fn model_verdict(engine: &Interp, outputs: &interp::Outputs) -> anyhow::Result<ModelVerdict> {
    let one = |packet: &interp::OutPacket| match packet.verdict {
        Verdict::Forward { port } => Ok(ModelVerdict::Send { port: port.0, bytes: packet.bytes.clone() }),
        Verdict::ToCpu { .. } => Ok(ModelVerdict::Cpu),
        Verdict::Drop(reason @ DropReason::Program(_)) => {
            Ok(ModelVerdict::Drop(engine.reasons().drop_name(reason).into_owned().into()))
        }
        Verdict::Drop(reason) => anyhow::bail!("dropped by the engine: {}", engine.reasons().drop_name(reason)),
    };
    match outputs.packets() {
        [packet] => one(packet),
        [dropped, error] if error.origin == PacketOrigin::Generated => match one(dropped)? {
            ModelVerdict::Drop(reason) => Ok(ModelVerdict::Tell { reason, error: Box::new(one(error)?) }),
            other => anyhow::bail!("an ICMP error about a packet with the verdict {other:02x?}"),
        },
        packets => anyhow::bail!("{} packets of one", packets.len()),
    }
}
