//! Tests "Client Arbitration and Controller Replication" over real streams; the state machine's own
//! tests cover each rule.

use crate::support::*;
use p4runtime::client::Stream;
use p4runtime::proto::google::rpc;
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::proto::v1::stream_message_response::Update as In;
use std::sync::atomic::Ordering;

async fn next_arbitration(stream: &mut Stream) -> (rpc::Code, Option<u64>) {
    match next(stream).await {
        In::Arbitration(update) => {
            assert_eq!(update.device_id, DEVICE);
            let code = rpc::Code::try_from(update.status.unwrap().code).unwrap();
            (code, update.election_id.map(|id| id.low))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn primaries_and_backups_are_told_of_each_change() {
    let served = served().await;
    let (mut first, mut stream) = served.primary().await;
    let mut second = served.client().await;
    let (mut other, said) = within_patience(second.arbitrate(None)).await.unwrap();
    assert_eq!((said.status.unwrap().code, said.election_id.unwrap().low), (rpc::Code::AlreadyExists as i32, 1));
    other.send(Out::Arbitration(second.claim(Some(2)))).await.unwrap();
    assert_eq!(next_arbitration(&mut other).await, (rpc::Code::Ok, Some(2)));
    assert_eq!(next_arbitration(&mut stream).await, (rpc::Code::AlreadyExists, Some(2)));
    assert_eq!(code(first.write(vec![], Atomicity::ContinueOnError).await), Code::PermissionDenied);
    second.election = Some(2);
    second.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    // The primary disconnects: no backup is promoted.
    drop(other);
    assert_eq!(next_arbitration(&mut stream).await, (rpc::Code::NotFound, Some(2)));
    assert_eq!(code(second.write(vec![], Atomicity::ContinueOnError).await), Code::PermissionDenied);
    stream.send(Out::Arbitration(first.claim(Some(3)))).await.unwrap();
    assert_eq!(next_arbitration(&mut stream).await, (rpc::Code::Ok, Some(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_end_the_stream() {
    let served = served().await;
    let (client, _stream) = served.primary().await;
    let wrong = |f: &dyn Fn(&mut MasterArbitrationUpdate)| {
        let mut update = client.claim(Some(9));
        f(&mut update);
        update
    };
    let unknown = prost_types::Any { type_url: "type.googleapis.com/other".into(), value: vec![] };
    let role = |name: &str, config| Some(Role { name: name.into(), config, ..Role::default() });
    for (update, wanted) in [
        (wrong(&|update| update.device_id = 6), Code::NotFound),
        (wrong(&|update| update.election_id = Some(Uint128 { high: 0, low: 1 })), Code::InvalidArgument),
        (wrong(&|update| update.role = role("r", Some(unknown.clone()))), Code::InvalidArgument),
    ] {
        let mut stream = served.client().await.stream().await.unwrap();
        stream.send(Out::Arbitration(update)).await.unwrap();
        assert_eq!(end_of(&mut stream).await, Some(wanted));
    }
    for (update, wanted) in [
        (wrong(&|update| update.device_id = 6), Code::FailedPrecondition),
        (wrong(&|update| update.role = role("r", None)), Code::FailedPrecondition),
    ] {
        let (mut stream, _) = served.client().await.arbitrate(Some(7)).await.unwrap();
        stream.send(Out::Arbitration(update)).await.unwrap();
        assert_eq!(end_of(&mut stream).await, Some(wanted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_primary_waits_for_the_writes_of_the_last_one() {
    let served = served().await;
    let (mut first, mut stream) = served.primary().await;
    let device = served.device.clone();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let gate = tokio::task::spawn_blocking({
        let device = device.clone();
        move || {
            let _gate = device.gate.lock().unwrap();
            held.recv().unwrap();
        }
    });
    until(|| device.gate.try_lock().is_err()).await;
    let write = tokio::spawn(async move { first.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await });
    until(|| device.at_gate.load(Ordering::SeqCst) == 1).await;
    let mut second = served.client().await;
    let mut other = second.stream().await.unwrap();
    other.send(Out::Arbitration(second.claim(Some(2)))).await.unwrap();
    assert_eq!(
        next_arbitration(&mut stream).await,
        (rpc::Code::AlreadyExists, Some(2)),
        "the last primary is told at once"
    );
    second.election = Some(2);
    assert_eq!(code(second.write(vec![], Atomicity::ContinueOnError).await), Code::PermissionDenied);
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), other.next()).await;
    assert!(early.is_err(), "the new primary is not told yet");
    hold.send(()).unwrap();
    within_patience(write).await.unwrap().expect("a write that has begun goes through");
    assert_eq!(next_arbitration(&mut other).await, (rpc::Code::Ok, Some(2)));
    second.write(vec![insert(type_entry(2))], Atomicity::ContinueOnError).await.unwrap();
    assert_eq!(device.entries(), 2);
    gate.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_name_device_role_and_election_id() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let request = |device_id, role: &str, low| WriteRequest {
        device_id,
        role: role.into(),
        election_id: Some(Uint128 { high: 0, low }),
        ..WriteRequest::default()
    };
    assert!(client.rpc.write(request(DEVICE, "", 1)).await.is_ok());
    assert_eq!(code(client.rpc.write(request(6, "", 1)).await), Code::NotFound);
    assert_eq!(code(client.rpc.write(request(DEVICE, "nobody", 1)).await), Code::NotFound);
    assert_eq!(code(client.rpc.write(request(DEVICE, "", 2)).await), Code::PermissionDenied);
    let unset = WriteRequest { election_id: None, ..request(DEVICE, "", 1) };
    assert_eq!(code(client.rpc.write(unset).await), Code::PermissionDenied);
    #[allow(deprecated)]
    let numbered = WriteRequest { role_id: 3, ..request(DEVICE, "", 1) };
    assert_eq!(code(client.rpc.write(numbered).await), Code::NotFound);
}
