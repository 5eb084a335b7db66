//! Tests "Read RPC".

use crate::support::*;
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::server::{Limits, ServeOptions, parts_of};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read_in_parts() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let updates = (0..20000).map(|value| insert(type_entry(value))).collect();
    client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    let mut parts = client.read(vec![entity_of(TableEntry::default())]).await.unwrap();
    let mut sizes = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(part) = within_patience(parts.message()).await.unwrap() {
        sizes.push(prost::Message::encoded_len(&part));
        seen.extend(part.entities.iter().map(|entity| format!("{entity:?}")));
    }
    assert_eq!(seen.len(), 20000);
    assert!(sizes.len() > 5 && sizes.iter().all(|size| *size < 128 * 1024), "{sizes:?}");
    let one = client.read_all(vec![entity_of(TableEntry { action: None, ..type_entry(7) })]).await.unwrap();
    assert_eq!(one, [entity_of(type_entry(7))]);
    assert_eq!(client.read_all(vec![]).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_needs_no_stream_and_no_election_id() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    let mut reader = served.client().await;
    assert_eq!(reader.read_all(vec![entity_of(TableEntry::default())]).await.unwrap().len(), 1);
    let counter = CounterEntry { counter_id: id("hits"), index: Some(Index { index: 3 }), data: None };
    let read = reader.read_all(vec![Entity { entity: Some(E::CounterEntry(counter)) }]).await.unwrap();
    assert!(matches!(&read[..], [Entity { entity: Some(E::CounterEntry(c)) }] if c.data.unwrap().packet_count == 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_told_after_what_the_good_ones_read() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    let good = entity_of(TableEntry::default());
    let unknown = entity_of(TableEntry { table_id: 0x0200_ffff, ..TableEntry::default() });
    let digest = Entity { entity: Some(E::DigestEntry(DigestEntry { digest_id: 9, config: None })) };
    let wanted = vec![good.clone(), unknown, good, Entity { entity: None }, digest];
    let mut parts = client.read(wanted).await.unwrap();
    assert_eq!(parts.message().await.unwrap().unwrap().entities.len(), 2);
    let status = parts.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let codes: Vec<Code> = parts_of(&status).unwrap().iter().map(|e| Code::from(e.canonical_code)).collect();
    assert_eq!(codes, [Code::Ok, Code::NotFound, Code::Ok, Code::InvalidArgument, Code::NotFound]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_whole_requests() {
    let bare = serve_bare(ServeOptions::default()).await;
    let mut client = bare.client().await;
    assert_eq!(code(client.read_all(vec![]).await), Code::FailedPrecondition);
    let served = served().await;
    let mut client = served.client().await;
    client.device = 6;
    assert_eq!(code(client.read_all(vec![]).await), Code::NotFound);
    let mut client = served.client_of("nobody").await;
    assert_eq!(code(client.read_all(vec![]).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_read_holds_up_nobody_and_ends_as_cut_short() {
    let limits = Limits { reads: 1, stall_time: Duration::from_millis(300), ..Limits::default() };
    let served = serve_program(ServeOptions { limits, ..ServeOptions::default() }).await;
    let (mut client, _stream) = served.primary().await;
    // More than HTTP/2 buffers at both ends.
    let long = |value| TableEntry { metadata: vec![7; 200].into(), ..type_entry(value) };
    let updates = (0..60000).map(|value| insert(long(value))).collect();
    client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    let mut stalled = client.read(vec![entity_of(TableEntry::default())]).await.unwrap();
    client.write(vec![insert(host_entry(1))], Atomicity::ContinueOnError).await.expect("writes go on");
    // A short response needs no permit; for a long one, the only permit is free again after the
    // stall.
    let mut other = served.client().await;
    assert_eq!(
        within_patience(other.read_all(vec![entity_of(TableEntry { action: None, ..host_entry(1) })]))
            .await
            .unwrap()
            .len(),
        1
    );
    assert!(within_patience(other.read_all(vec![entity_of(TableEntry::default())])).await.unwrap().len() > 60000);
    let mut entities = 0;
    let end = loop {
        match within_patience(stalled.message()).await {
            Ok(Some(part)) => entities += part.entities.len(),
            Ok(None) => panic!("it looks whole, with {entities} entities"),
            Err(status) => break status.code(),
        }
    };
    assert!(end == Code::DeadlineExceeded && entities < 60000, "{end:?} after {entities}");
}
