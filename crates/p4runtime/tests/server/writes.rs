//! Tests "Write RPC".

use crate::support::*;
use p4runtime::proto::terrace::v1::RoleConfig;
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::proto::v1::update::Type;
use p4runtime::server::{ROLE_CONFIG_URL, ServeOptions, parts_of};
use prost::Message;
use std::sync::atomic::Ordering;
use tonic::Status;

/// Returns the codes of a rejected request's updates.
fn parts(result: Result<(), Status>) -> Vec<Code> {
    let status = result.expect_err("it is refused");
    assert_eq!(status.code(), Code::Unknown, "{status}");
    parts_of(&status).expect("it has parts").iter().map(|error| Code::from(error.canonical_code)).collect()
}

/// Returns updates: good, existing entry, unknown table, good, good.
fn mixed() -> Vec<v1::Update> {
    let lost = TableEntry { table_id: 0x0200_ffff, ..type_entry(9) };
    vec![
        insert(type_entry(1)),
        insert(type_entry(1)),
        insert(lost),
        update(Type::Modify, type_entry(1)),
        insert(type_entry(2)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_batch_is_one_batch_for_the_device() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let updates = (0..5000).map(|value| insert(type_entry(value))).collect();
    client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    assert_eq!((served.device.batches.load(Ordering::SeqCst), served.device.entries()), (1, 5000));
    client.write(vec![], Atomicity::RollbackOnError).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn continue_on_error_makes_all_that_are_good() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let result = client.write(mixed(), Atomicity::ContinueOnError).await;
    assert_eq!(parts(result), [Code::Ok, Code::AlreadyExists, Code::NotFound, Code::Ok, Code::Ok]);
    assert_eq!(served.device.entries(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_modes_make_all_or_nothing() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut updates = mixed();
        updates.remove(2);
        let result = client.write(updates, atomicity).await;
        assert_eq!(parts(result), [Code::Aborted, Code::AlreadyExists, Code::Aborted, Code::Aborted]);
        let result = client.write(mixed(), atomicity).await;
        assert_eq!(parts(result)[2], Code::NotFound, "what can't be translated is found first");
        assert_eq!(served.device.entries(), 0);
        client.write(vec![insert(type_entry(1)), insert(type_entry(2))], atomicity).await.unwrap();
        let delete = vec![update(Type::Delete, type_entry(1)), update(Type::Delete, type_entry(2))];
        client.write(delete, atomicity).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_refusals_are_in_their_places() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    // Every third entry exists already.
    let twice = |value: u16| if value % 3 == 2 { value - 1 } else { value };
    let updates = (0..3000).map(|value| insert(type_entry(twice(value)))).collect();
    let codes = parts(client.write(updates, Atomicity::ContinueOnError).await);
    let wanted = |at: usize| if at % 3 == 2 { Code::AlreadyExists } else { Code::Ok };
    assert!(codes.len() == 3000 && codes.iter().enumerate().all(|(at, code)| *code == wanted(at)));
    assert_eq!(served.device.entries(), 2000);
    let all_bad = (0..2000).map(|_| insert(type_entry(0))).collect();
    let before = served.device.batches.load(Ordering::SeqCst);
    assert!(parts(client.write(all_bad, Atomicity::ContinueOnError).await).iter().all(|c| *c == Code::AlreadyExists));
    let batches = served.device.batches.load(Ordering::SeqCst) - before;
    assert!(batches < 3 * 2000, "{batches} batches");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_updates() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let full = (0..5).map(|value| insert(host_entry(value))).collect();
    let codes = parts(client.write(full, Atomicity::ContinueOnError).await);
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::Ok, Code::Ok, Code::ResourceExhausted]);
    let bad = vec![
        v1::Update { r#type: 0, entity: Some(entity_of(type_entry(1))) },
        v1::Update { r#type: 1, entity: None },
        v1::Update { r#type: 1, entity: Some(Entity { entity: None }) },
        update(Type::Modify, type_entry(1)),
        update(Type::Delete, type_entry(1)),
        insert(TableEntry { priority: 3, ..type_entry(1) }),
    ];
    let codes = parts(client.write(bad, Atomicity::ContinueOnError).await);
    let invalid = Code::InvalidArgument;
    assert_eq!(codes, [invalid, invalid, invalid, Code::NotFound, Code::NotFound, invalid]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_whole_requests_have_no_parts() {
    let bare = serve_bare(ServeOptions::default()).await;
    let (mut client, _stream) = bare.primary().await;
    let status = client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap_err();
    assert_eq!((status.code(), parts_of(&status)), (Code::FailedPrecondition, None));
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    served.device.broken.store(true, Ordering::SeqCst);
    for atomicity in [Atomicity::ContinueOnError, Atomicity::RollbackOnError] {
        let status = client.write(vec![insert(type_entry(1))], atomicity).await.unwrap_err();
        assert_eq!((status.code(), parts_of(&status)), (Code::Unavailable, None));
    }
    let election_id = Some(Uint128 { high: 0, low: 1 });
    let unknown = WriteRequest { device_id: DEVICE, election_id, atomicity: 7, ..WriteRequest::default() };
    assert_eq!(code(client.rpc.write(unknown).await), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_writes_and_reads_what_its_config_lists() {
    let served = served().await;
    let config = RoleConfig { ids: vec![id("types")], ..RoleConfig::default() };
    let any = prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value: config.encode_to_vec() };
    let mut client = served.client_of("types only").await;
    client.role.config = Some(any);
    let _stream = become_primary(&mut client, 1).await;
    let digest = DigestEntry { digest_id: id("learned_t"), config: None };
    let digest = v1::Update { r#type: 1, entity: Some(Entity { entity: Some(E::DigestEntry(digest)) }) };
    let result = client.write(vec![insert(type_entry(1)), insert(host_entry(1)), digest], Atomicity::ContinueOnError);
    assert_eq!(parts(result.await), [Code::Ok, Code::PermissionDenied, Code::PermissionDenied]);
    let (mut full, _other) = served.primary().await;
    full.write(vec![insert(host_entry(2))], Atomicity::ContinueOnError).await.unwrap();
    let all = vec![entity_of(TableEntry::default())];
    assert_eq!(client.read_all(all.clone()).await.unwrap().len(), 1);
    assert_eq!(full.read_all(all).await.unwrap().len(), 2);
    let config = Some(config_of(&program(), 2));
    let action = p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action::Verify;
    assert_eq!(code(set(&mut client, action, config).await), Code::PermissionDenied);
}
