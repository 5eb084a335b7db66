//! The gateway program on the reference engine, with a region's entries.

use interp::{Config, Interp};
use packet::{DropReason, Verdict};
use region::{Numbers, Region};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::Outcome;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program of the repository.
///
/// # Errors
/// Its diagnostics.
pub fn compile(path: &Path) -> anyhow::Result<ir::Pipeline> {
    let options = p4::compile::Options { include_dirs: vec![root().join("programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, path, &options);
    compiled.pipeline.ok_or_else(|| {
        let lines: Vec<String> = compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
        anyhow::anyhow!("{} is refused:\n{}", path.display(), lines.join("\n"))
    })
}

/// The gateway program.
///
/// # Errors
/// If it does not compile.
pub fn pipeline() -> anyhow::Result<Arc<ir::Pipeline>> {
    Ok(Arc::new(compile(&root().join("programs/gateway/gateway.p4"))?))
}

/// A gateway that serves a region.
///
/// # Errors
/// If the region's entries are refused.
pub fn serve(pipeline: Arc<ir::Pipeline>, region: &Region) -> anyhow::Result<Interp> {
    let mut numbers = Numbers::default();
    let entries = region::entries(region, "region.yaml", &pipeline, &mut numbers)?;
    let mut engine = Interp::new(pipeline, Config::default())?;
    engine.write(&region::diff(region::Entries::default(), entries))?;
    Ok(engine)
}

/// What an engine did with a packet, in the words of the model. Reasons that are not the program's own give an error: the
/// gateway names all of its own.
///
/// # Errors
/// A verdict that the gateway must not give.
pub fn outcome(engine: &Interp, outputs: &interp::Outputs) -> anyhow::Result<(Outcome, Option<String>)> {
    let [packet] = outputs.packets() else { anyhow::bail!("{} packets of one", outputs.packets().len()) };
    match packet.verdict {
        Verdict::Forward { port } => Ok((Outcome::Send { port: port.0, bytes: packet.bytes.clone() }, None)),
        Verdict::ToCpu { .. } => Ok((Outcome::Cpu, None)),
        Verdict::Drop(reason @ DropReason::Program(_)) => {
            Ok((Outcome::Drop("by the program"), Some(engine.reasons().drop_name(reason).into_owned())))
        }
        Verdict::Drop(reason) => anyhow::bail!("dropped by the engine: {}", engine.reasons().drop_name(reason)),
    }
}
