//! The built-in gateway program.

use ir::Pipeline;
use p4runtime::{P4RuntimeError, PipelineConfig};

/// Output of `terrace compile` for programs/gateway/gateway.p4; a test of `crates/terrace` checks
/// that it is current.
const GATEWAY: &str = include_str!("../../../../programs/gateway/gateway.ir");

/// Returns the gateway program in the text form of its pipeline.
pub fn gateway() -> &'static str {
    GATEWAY
}

/// Creates the pipeline config of a program in text form, as if a controller had set it.
///
/// # Errors
/// The text is not a pipeline.
pub(super) fn config_from_text(device_config: Vec<u8>) -> Result<PipelineConfig, P4RuntimeError> {
    let pipeline = crate::device::parse_device_config(&device_config)?;
    let p4info = encode_p4info(&pipeline);
    Ok(PipelineConfig { pipeline, p4info: p4info.into(), device_config: device_config.into(), cookie: None })
}

fn encode_p4info(pipeline: &Pipeline) -> Vec<u8> {
    p4runtime::p4info::encode(&ir::p4info::generate(pipeline))
}
