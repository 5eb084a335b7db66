//! The gateway program that a node brings along.

use ir::Pipeline;
use p4runtime::{Forwarding, Refusal};

/// programs/gateway/gateway.p4 as `terrace compile` writes it; a test of `crates/terrace` holds it to that.
const GATEWAY: &str = include_str!("../../../../programs/gateway/gateway.ir");

/// The gateway program in the text form of its pipeline.
pub fn gateway() -> &'static str {
    GATEWAY
}

/// The pipeline config of a program in text form, as if a controller had set it.
///
/// # Errors
/// It is no pipeline.
pub(super) fn forwarding(device_config: Vec<u8>) -> Result<Forwarding, Refusal> {
    let pipeline = crate::device::parse(&device_config)?;
    let p4info = p4info(&pipeline);
    Ok(Forwarding { pipeline, p4info: p4info.into(), device_config: device_config.into(), cookie: None })
}

fn p4info(pipeline: &Pipeline) -> Vec<u8> {
    p4runtime::p4info::encode(&ir::p4info::generate(pipeline))
}
