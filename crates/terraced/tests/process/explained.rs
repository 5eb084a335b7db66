//! Queries a node's explanations of packets by its control socket while a controller writes its
//! tables.

use crate::daemon::Daemon;
use crate::forward::{Forward, commit, pipeline};
use node::admin::{ControlRequest, ControlResponse, ResponseStream, ask};
use node::explain::trace_json::VerdictJson;
use node::explain::{TraceRequest, TraceResponse};
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{PacketMetadata, PacketOut};
use packet::hex;

/// CPU port, for the controller.
const CPU: u32 = 510;

/// Returns a frame to that destination.
fn frame(destination: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[5] = destination;
    bytes
}

#[test]
fn a_running_node_explains_by_the_tables_that_its_controller_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let socket = Daemon::control(&store);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let (daemon, _) = Daemon::start(&store);
    let explain = |bytes: &[u8]| match ask(
        &socket,
        &ControlRequest::Explain { port: 1, hex: hex(bytes), from: None, offload: false },
    ) {
        Ok(ControlResponse::Explained(told)) => Ok(told.explanation),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    assert!(explain(&frame(1)).expect_err("nothing runs").contains("no program runs on this node"));
    let pipeline = pipeline();
    let forward = Forward::new(&pipeline);
    let (mut client, stream) = runtime.block_on(daemon.client());
    runtime.block_on(commit(&mut client, &pipeline));
    let dropped = VerdictJson::Drop { reason: "program_drop".into(), origin: None };
    assert_eq!(explain(&frame(1)).expect("a program").verdicts, std::slice::from_ref(&dropped));
    let updates = vec![forward.update(Type::Insert, 1, 7)];
    runtime.block_on(client.write(updates, Atomicity::RollbackOnError)).expect("a good batch");
    let explanation = explain(&frame(1)).expect("a program");
    assert!(matches!(explanation.verdicts[..], [VerdictJson::Forward { port: 7, .. }]), "{explanation:?}");

    // Packets of the controller arrive on its port, where they are traced.
    let of = TraceRequest { port: Some(CPU), packets: 3, seconds: 60, ..TraceRequest::default() };
    let mut answers = ResponseStream::begin(&socket, &ControlRequest::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        ControlResponse::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceResponse::Begun { .. }));
    for number in 1..=3 {
        let port = pipeline_port(number);
        let metadata = vec![
            PacketMetadata { metadata_id: 1, value: bytes::Bytes::copy_from_slice(&port) },
            PacketMetadata { metadata_id: 2, value: bytes::Bytes::from_static(&[0]) },
        ];
        let packet = PacketOut { payload: frame(number).into(), metadata };
        runtime.block_on(stream.send(Out::Packet(packet))).expect("it listens");
    }
    for number in 1..=3u8 {
        let packet = loop {
            match next() {
                TraceResponse::Packet(traced) => break traced,
                TraceResponse::Waiting { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((packet.number, packet.packet.port, packet.mismatch.as_deref()), (number.into(), CPU, None));
        let port = u32::from(pipeline_port(number)[0]);
        let wanted = VerdictJson::Forward { port, hex: hex(&frame(number)), origin: None };
        assert_eq!(packet.verdicts, [wanted]);
    }
    assert_eq!(next(), TraceResponse::Ended { shown: 3, lost: 0 });
}

/// Returns the metadata with the output port of a controller's packet.
fn pipeline_port(number: u8) -> [u8; 1] {
    [10 + number]
}
