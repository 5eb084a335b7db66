//! One test for each rule of "Rules for Handling `MasterArbitrationUpdate` Messages" and "Client
//! Arbitration Notifications".

use super::*;
use crate::proto::terrace::v1::RoleConfig;
use crate::server::role::ROLE_CONFIG_URL;
use prost::Message;

const DEVICE: u64 = 3;

fn arbitration() -> Arbitration {
    Arbitration::new(DEVICE, ArbitrationLimits { roles: 3, clients: 4 })
}

fn update(role: &str, election: Option<u128>) -> MasterArbitrationUpdate {
    let role = (!role.is_empty()).then(|| Role { name: role.into(), ..Role::default() });
    MasterArbitrationUpdate { device_id: DEVICE, role, election_id: election.map(uint128), status: None }
}

fn config(ids: &[u32]) -> prost_types::Any {
    let value = RoleConfig { ids: ids.to_vec(), ..RoleConfig::default() }.encode_to_vec();
    prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value }
}

/// Returns stream, status code and election id of each message.
fn message_fields(advice: &[ArbitrationMessage]) -> Vec<(StreamId, rpc::Code, Option<u128>)> {
    let one = |a: &ArbitrationMessage| {
        let code = rpc::Code::try_from(a.message.status.as_ref().unwrap().code).unwrap();
        (a.stream, code, a.message.election_id.map(election_of))
    };
    advice.iter().map(one).collect()
}

/// Completes a claim: returns the messages before and after writes have ended.
fn claim(
    a: &mut Arbitration,
    stream: StreamId,
    role: &str,
    election: Option<u128>,
) -> Vec<(StreamId, rpc::Code, Option<u128>)> {
    match a.handle_update(stream, &update(role, election)).unwrap() {
        ArbitrationEffect::Messages(advice) => message_fields(&advice),
        ArbitrationEffect::Handover(mut advice) => {
            advice.extend(a.accept_writes(stream));
            message_fields(&advice)
        }
    }
}

fn refused(a: &mut Arbitration, stream: StreamId, update: &MasterArbitrationUpdate) -> Code {
    a.handle_update(stream, update).unwrap_err().code
}

fn may_write(a: &Arbitration, role: &str, election: u128) -> Result<(), Code> {
    a.check_primary(DEVICE, role, Some(uint128(election))).map(drop).map_err(|refusal| refusal.code)
}

use rpc::Code::{AlreadyExists, NotFound, Ok as Primary};

#[test]
fn another_device_is_not_found_at_first_and_a_failed_precondition_later() {
    let mut a = arbitration();
    let other = MasterArbitrationUpdate { device_id: 4, ..update("", Some(1)) };
    assert_eq!(refused(&mut a, 1, &other), Code::NotFound);
    claim(&mut a, 1, "", Some(1));
    assert_eq!(refused(&mut a, 1, &other), Code::FailedPrecondition);
    assert_eq!(refused(&mut a, 2, &MasterArbitrationUpdate { device_id: 0, ..other }), Code::NotFound);
}

#[test]
fn an_election_id_that_another_live_client_has_is_refused() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    assert_eq!(refused(&mut a, 2, &update("", Some(5))), Code::InvalidArgument);
    claim(&mut a, 2, "", Some(4));
    assert_eq!(refused(&mut a, 2, &update("", Some(5))), Code::InvalidArgument, "also when it is live already");
    assert_eq!(claim(&mut a, 3, "named", Some(5)), [(3, Primary, Some(5))], "roles are apart");
    a.remove_stream(1);
    assert_eq!(
        claim(&mut a, 4, "", Some(5)),
        [(2, AlreadyExists, Some(5)), (4, Primary, Some(5))],
        "only live clients count"
    );
}

#[test]
fn a_config_that_is_not_understood_is_refused() {
    let mut a = arbitration();
    let unknown = prost_types::Any { type_url: "type.googleapis.com/other.Config".into(), value: vec![] };
    let role = |name: &str, config| Some(Role { name: name.into(), config: Some(config), ..Role::default() });
    let with = |role| MasterArbitrationUpdate { role, ..update("", Some(1)) };
    assert_eq!(refused(&mut a, 1, &with(role("r", unknown.clone()))), Code::InvalidArgument);
    claim(&mut a, 1, "r", Some(1));
    assert_eq!(refused(&mut a, 1, &with(role("r", unknown))), Code::InvalidArgument, "also of a live client");
    assert_eq!(refused(&mut a, 2, &with(role("", config(&[1])))), Code::InvalidArgument, "the default role has none");
    #[allow(deprecated)]
    let numbered = Some(Role { id: 7, ..Role::default() });
    assert_eq!(refused(&mut a, 2, &with(numbered)), Code::InvalidArgument, "roles have names");
}

#[test]
fn clients_and_roles_are_bounded() {
    let mut a = arbitration();
    for stream in 1..=4 {
        claim(&mut a, stream, "", Some(u128::from(stream)));
    }
    assert_eq!(refused(&mut a, 5, &update("", None)), Code::ResourceExhausted);
    claim(&mut a, 2, "", Some(9));
    claim(&mut a, 5, "a", None);
    claim(&mut a, 6, "b", None);
    assert_eq!(refused(&mut a, 7, &update("c", None)), Code::ResourceExhausted);
    a.remove_stream(6);
    claim(&mut a, 7, "c", None);
}

#[test]
fn a_stream_keeps_its_role() {
    let mut a = arbitration();
    claim(&mut a, 1, "a", Some(1));
    assert_eq!(refused(&mut a, 1, &update("b", Some(1))), Code::FailedPrecondition);
    assert_eq!(refused(&mut a, 1, &update("", Some(1))), Code::FailedPrecondition);
}

#[test]
fn the_greatest_election_id_is_primary_and_all_are_told() {
    let mut a = arbitration();
    assert_eq!(claim(&mut a, 1, "", Some(5)), [(1, Primary, Some(5))]);
    assert_eq!(claim(&mut a, 2, "", Some(3)), [(2, AlreadyExists, Some(5))], "a backup alone is told");
    assert_eq!(
        claim(&mut a, 3, "", Some(6)),
        [(1, AlreadyExists, Some(6)), (2, AlreadyExists, Some(6)), (3, Primary, Some(6))]
    );
    assert_eq!(may_write(&a, "", 6), Ok(()));
    assert_eq!(may_write(&a, "", 5), Err(Code::PermissionDenied));
}

#[test]
fn election_ids_have_128_bits() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(u128::from(u64::MAX)));
    assert_eq!(claim(&mut a, 2, "", Some(1 << 64)).last(), Some(&(2, Primary, Some(1 << 64))));
    assert_eq!(may_write(&a, "", 1 << 64), Ok(()));
    assert_eq!(may_write(&a, "", u128::from(u64::MAX)), Err(Code::PermissionDenied));
}

#[test]
fn without_an_election_id_a_client_is_never_primary_but_zero_is_one() {
    let mut a = arbitration();
    assert_eq!(claim(&mut a, 1, "", None), [(1, NotFound, None)], "there has not been a primary at all");
    assert_eq!(claim(&mut a, 2, "", None), [(2, NotFound, None)], "several may have none");
    assert_eq!(may_write(&a, "", 0), Err(Code::PermissionDenied));
    assert_eq!(a.check_primary(DEVICE, "", None).unwrap_err().code, Code::PermissionDenied);
    assert_eq!(claim(&mut a, 3, "", Some(0)).last(), Some(&(3, Primary, Some(0))), "0 that is set is an id");
    assert_eq!(a.check_primary(DEVICE, "", None).unwrap_err().code, Code::PermissionDenied);
}

#[test]
fn a_primary_that_lowers_its_id_leaves_none() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    claim(&mut a, 2, "", Some(4));
    assert_eq!(claim(&mut a, 1, "", Some(3)), [(1, NotFound, Some(5)), (2, NotFound, Some(5))]);
    assert_eq!(may_write(&a, "", 3), Err(Code::PermissionDenied));
    assert_eq!(may_write(&a, "", 4), Err(Code::PermissionDenied), "nobody moves up by itself");
    assert_eq!(
        claim(&mut a, 2, "", Some(5)),
        [(1, AlreadyExists, Some(5)), (2, Primary, Some(5))],
        "the highest ever is enough"
    );
}

#[test]
fn a_primary_that_drops_its_id_leaves_none() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    assert_eq!(claim(&mut a, 1, "", None), [(1, NotFound, Some(5))]);
}

#[test]
fn a_primary_that_leaves_leaves_none() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    claim(&mut a, 2, "", Some(4));
    assert_eq!(message_fields(&a.remove_stream(1)), [(2, NotFound, Some(5))]);
    assert_eq!(may_write(&a, "", 5), Err(Code::PermissionDenied));
    assert_eq!(may_write(&a, "", 4), Err(Code::PermissionDenied), "the backup has to ask");
}

#[test]
fn a_backup_that_leaves_is_not_told_of() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    claim(&mut a, 2, "", Some(4));
    assert_eq!(a.remove_stream(2), []);
    assert_eq!(a.remove_stream(2), [], "twice is no fault");
    assert_eq!(may_write(&a, "", 5), Ok(()));
}

#[test]
fn the_highest_id_outlives_its_clients() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    a.remove_stream(1);
    assert_eq!(claim(&mut a, 2, "", Some(4)), [(2, NotFound, Some(5))]);
    assert_eq!(claim(&mut a, 2, "", Some(6)), [(2, Primary, Some(6))]);
}

#[test]
fn a_backup_becomes_primary_by_another_id() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    claim(&mut a, 2, "", Some(4));
    assert_eq!(claim(&mut a, 2, "", Some(7)), [(1, AlreadyExists, Some(7)), (2, Primary, Some(7))]);
}

#[test]
fn writes_wait_until_the_last_primarys_have_ended() {
    let mut a = arbitration();
    claim(&mut a, 1, "", Some(5));
    let ArbitrationEffect::Handover(first) = a.handle_update(2, &update("", Some(6))).unwrap() else {
        panic!("a handover")
    };
    assert_eq!(message_fields(&first), [(1, AlreadyExists, Some(6))], "the new primary is told last");
    assert_eq!(may_write(&a, "", 5), Err(Code::PermissionDenied));
    assert_eq!(may_write(&a, "", 6), Err(Code::PermissionDenied));
    assert_eq!(message_fields(a.accept_writes(2).as_slice()), [(2, Primary, Some(6))]);
    assert_eq!(may_write(&a, "", 6), Ok(()));
}

#[test]
fn a_primary_that_was_outrun_before_it_settled_is_not_told() {
    let mut a = arbitration();
    a.handle_update(1, &update("", Some(5))).unwrap();
    a.handle_update(2, &update("", Some(6))).unwrap();
    assert_eq!(a.accept_writes(1), None);
    assert_eq!(may_write(&a, "", 6), Err(Code::PermissionDenied));
    assert!(a.accept_writes(2).is_some());
    assert_eq!(a.accept_writes(9), None, "a stream that has gone");
}

#[test]
fn roles_have_primaries_of_their_own() {
    let mut a = arbitration();
    claim(&mut a, 1, "a", Some(5));
    claim(&mut a, 2, "b", Some(3));
    assert_eq!((may_write(&a, "a", 5), may_write(&a, "b", 3)), (Ok(()), Ok(())));
    assert_eq!(may_write(&a, "b", 5), Err(Code::PermissionDenied));
    assert_eq!(may_write(&a, "c", 5), Err(Code::NotFound), "there is no such role");
    assert_eq!(may_write(&a, "", 5), Err(Code::PermissionDenied), "the default role is always there");
    assert_eq!(a.check_primary(DEVICE + 1, "a", Some(uint128(5))).unwrap_err().code, Code::NotFound);
    assert_eq!(a.primaries().map(|(stream, _)| stream).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn the_primarys_config_is_the_roles() {
    let mut a = arbitration();
    let with = |election, config| MasterArbitrationUpdate {
        role: Some(Role { name: "r".into(), config: Some(config), ..Role::default() }),
        ..update("r", Some(election))
    };
    let ArbitrationEffect::Handover(_) = a.handle_update(1, &with(5, config(&[7]))).unwrap() else {
        panic!("a handover")
    };
    let own = a.accept_writes(1).unwrap().message.role.unwrap();
    assert_eq!((own.name.as_str(), own.config), ("r", Some(config(&[7]))));
    assert!(a.check_primary(DEVICE, "r", Some(uint128(5))).unwrap().has(7));

    // A backup's config is ignored, and the backup receives the primary's.
    let ArbitrationEffect::Messages(advice) = a.handle_update(2, &with(4, config(&[8]))).unwrap() else {
        panic!("a backup")
    };
    assert_eq!(advice[0].message.role.as_ref().unwrap().config, Some(config(&[7])));
    assert!(!a.read_scope(DEVICE, "r").unwrap().has(8));

    // The primary changes it: all receive it.
    let ArbitrationEffect::Handover(advice) = a.handle_update(1, &with(5, config(&[9]))).unwrap() else {
        panic!("a handover")
    };
    assert_eq!(message_fields(&advice), [(2, AlreadyExists, Some(5))]);
    assert_eq!(advice[0].message.role.as_ref().unwrap().config, Some(config(&[9])));
    a.accept_writes(1);
    assert!(a.primary_scope(1).unwrap().has(9) && a.primary_scope(2).is_none());
}
