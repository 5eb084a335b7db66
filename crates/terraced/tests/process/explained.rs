//! A node is asked by its control socket why packets go where they do, while a controller writes its tables.

use crate::daemon::Daemon;
use crate::forward::{Forward, commit, pipeline};
use node::admin::{Answer, Asking, Request, ask};
use node::explain::answer::Verdicted;
use node::explain::{TraceAnswer, TraceOf};
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{PacketMetadata, PacketOut};
use packet::hex;

/// The port of the controller.
const CPU: u32 = 510;

/// A frame to that destination.
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
    let explain =
        |bytes: &[u8]| match ask(&socket, &Request::Explain { port: 1, hex: hex(bytes), from: None, offload: false }) {
            Ok(Answer::Explained(told)) => Ok(told.explanation),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
    assert!(explain(&frame(1)).expect_err("nothing runs").contains("no program runs on this node"));
    let pipeline = pipeline();
    let forward = Forward::new(&pipeline);
    let (mut client, stream) = runtime.block_on(daemon.client());
    runtime.block_on(commit(&mut client, &pipeline));
    let dropped = Verdicted::Drop { reason: "program_drop".into(), copy: None };
    assert_eq!(explain(&frame(1)).expect("a program").verdicts, std::slice::from_ref(&dropped));
    let updates = vec![forward.update(Type::Insert, 1, 7)];
    runtime.block_on(client.write(updates, Atomicity::RollbackOnError)).expect("a good batch");
    let explanation = explain(&frame(1)).expect("a program");
    assert!(matches!(explanation.verdicts[..], [Verdicted::Forward { port: 7, .. }]), "{explanation:?}");

    // What the controller sends comes in on its port, where it is traced.
    let of = TraceOf { port: Some(CPU), packets: 3, seconds: 60, ..TraceOf::default() };
    let mut answers = Asking::begin(&socket, &Request::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        Answer::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceAnswer::Begun { .. }));
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
                TraceAnswer::Packet(traced) => break traced,
                TraceAnswer::Waiting { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((packet.number, packet.packet.port, packet.differs.as_deref()), (number.into(), CPU, None));
        let port = u32::from(pipeline_port(number)[0]);
        let wanted = Verdicted::Forward { port, hex: hex(&frame(number)), copy: None };
        assert_eq!(packet.became, [wanted]);
    }
    assert_eq!(next(), TraceAnswer::Ended { shown: 3, lost: 0 });
}

/// The port out of which the controller sends a packet.
fn pipeline_port(number: u8) -> [u8; 1] {
    [10 + number]
}
