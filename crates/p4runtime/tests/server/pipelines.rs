//! Tests "SetForwardingPipelineConfig RPC", "GetForwardingPipelineConfig RPC" and "Capabilities
//! RPC".

use crate::support::*;
use p4runtime::proto::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::server::ServeOptions;
use p4runtime::{Device, ReconcileMode};

#[tokio::test(flavor = "multi_thread")]
async fn all_actions() {
    let served = serve_bare(ServeOptions::default()).await;
    let device = &served.device;
    let (mut client, _stream) = served.primary().await;
    let cookie = || device.running().map(|running| running.cookie.unwrap());
    assert_eq!(client.pipeline().await.unwrap(), None);

    set(&mut client, Action::Verify, Some(config_of(&program(), 1))).await.unwrap();
    assert!(cookie().is_none() && device.saved().is_none());
    set(&mut client, Action::VerifyAndSave, Some(config_of(&program(), 2))).await.unwrap();
    assert!(cookie().is_none() && device.saved().is_some());
    assert_eq!(client.read_all(vec![entity_of(TableEntry::default())]).await.unwrap(), []);
    set(&mut client, Action::Commit, None).await.unwrap();
    assert_eq!((cookie(), *device.kept.lock().unwrap()), (Some(2), Some(ReconcileMode::Nothing)));
    assert_eq!(code(set(&mut client, Action::Commit, None).await), Code::NotFound, "it is committed already");
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();

    set(&mut client, Action::VerifyAndCommit, Some(config_of(&program(), 3))).await.unwrap();
    assert_eq!((cookie(), *device.kept.lock().unwrap()), (Some(3), Some(ReconcileMode::Nothing)));
    assert_eq!(device.entries(), 0);
    set(&mut client, Action::ReconcileAndCommit, Some(config_of(&program(), 4))).await.unwrap();
    assert_eq!((cookie(), *device.kept.lock().unwrap()), (Some(4), Some(ReconcileMode::ValidObjects)));

    // Another program has other ids.
    set(&mut client, Action::VerifyAndCommit, Some(config_of(&other_program(), 5))).await.unwrap();
    assert_eq!(code(client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await), Code::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_configs_change_nothing() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let good = config_of(&program(), 7);
    let wrong = |f: &dyn Fn(&mut ForwardingPipelineConfig)| {
        let mut config = good.clone();
        f(&mut config);
        Some(config)
    };
    let verifying = [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit];
    for action in verifying {
        for config in [
            None,
            wrong(&|config| config.p4info = None),
            wrong(&|config| config.p4info.as_mut().unwrap().tables.truncate(1)),
            wrong(&|config| config.p4info.as_mut().unwrap().tables[0].size += 1),
            wrong(&|config| config.p4info = Some(p4info(&other_program()))),
            wrong(&|config| config.p4_device_config = "no pipeline".into()),
            wrong(&|config| config.p4_device_config = vec![0xff].into()),
        ] {
            assert_eq!(code(set(&mut client, action, config).await), Code::InvalidArgument);
        }
    }
    assert_eq!(code(set(&mut client, Action::Unspecified, Some(good.clone())).await), Code::InvalidArgument);
    assert_eq!(code(set(&mut client, Action::Commit, Some(good.clone())).await), Code::InvalidArgument);
    assert_eq!(code(set(&mut client, Action::Commit, None).await), Code::NotFound);
    assert_eq!(served.device.running().unwrap().cookie, Some(1));
    assert!(served.device.saved().is_none());
    // The order of objects in P4Info has no meaning.
    let reordered = wrong(&|config| config.p4info.as_mut().unwrap().tables.reverse());
    set(&mut client, Action::Verify, reordered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_without_consequence_is_told_and_taken() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let good = config_of(&program(), 7);
    assert_eq!(set(&mut client, Action::VerifyAndCommit, Some(good.clone())).await.unwrap(), Vec::<String>::new());
    let mut other = good.clone();
    let info = other.p4info.as_mut().unwrap();
    info.pkg_info.as_mut().unwrap().version = "9".into();
    info.tables[0].initial_default_action = None;
    info.tables[0].preamble.as_mut().unwrap().annotations.push("@naïve(\n)".into());
    let name = info.tables[0].preamble.as_ref().unwrap().name.clone();
    let told = vec![
        "pkg_info.version: unset in the device config, \"9\" in the P4Info".to_owned(),
        format!("tables[{name}].initial_default_action: in the device config only"),
        // Metadata of a response is printable ASCII.
        format!(
            "tables[{name}].preamble.annotations: unset in the device config, \"@na\\303\\257ve(\\n)\" in the P4Info"
        ),
    ];
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit] {
        assert_eq!(set(&mut client, action, Some(other.clone())).await.unwrap(), told);
    }
    // It is stored as received.
    assert_eq!(client.pipeline().await.unwrap().unwrap().p4info, other.p4info);
    let many = other.p4info.as_mut().unwrap();
    (0..30).for_each(|n| many.tables[0].preamble.as_mut().unwrap().annotations.push(format!("@a{n}")));
    let told = set(&mut client, Action::Verify, Some(other)).await.unwrap();
    assert_eq!((told.len(), told[10].as_str()), (11, "and 23 more differences; the node's log has 100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_each_place_and_what_to_do() {
    let served = served().await;
    let (mut client, _stream) = served.primary().await;
    let mut config = config_of(&program(), 7);
    let info = config.p4info.as_mut().unwrap();
    let table = info.tables[0].preamble.as_ref().unwrap().name.clone();
    info.tables[0].match_fields[0].bitwidth = 99;
    info.tables[0].preamble.as_mut().unwrap().annotations.push("@x".into());
    let counter = info.counters.pop().unwrap().preamble.unwrap().name;
    let refusal = set(&mut client, Action::Verify, Some(config.clone())).await.unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument);
    let start = "the P4Info is not that of the device config: they disagree in 2 places. Give the P4Info that was compiled with the \
                 device config, from the same source and options.";
    let expected = format!(
        "{start} counters[{counter}]: in the device config only; \
         tables[{table}].match_fields[1].bitwidth: 16 in the device config, 99 in the P4Info"
    );
    assert_eq!(refusal.message(), expected);
    // A message must fit in a header.
    let info = config.p4info.as_mut().unwrap();
    let action = info.actions[0].clone();
    for n in 0..200 {
        let mut action = action.clone();
        let preamble = action.preamble.as_mut().unwrap();
        (preamble.id, preamble.name) = (preamble.id + 1 + n, format!("a.rather.long.name.of.an.action.{n}"));
        info.tables[0].action_refs.push(p4runtime::proto::config::ActionRef { id: preamble.id, ..Default::default() });
        info.actions.push(action);
    }
    let refusal = set(&mut client, Action::Verify, Some(config)).await.unwrap_err();
    assert!(refusal.message().len() < 4000, "{}", refusal.message().len());
    assert!(refusal.message().contains("disagree in 202 places") && refusal.message().ends_with(" more"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_primary_sets_a_pipeline() {
    let served = served().await;
    let (client, _stream) = served.primary().await;
    let verify = |election, role: &str, device| SetForwardingPipelineConfigRequest {
        device_id: device,
        role: role.into(),
        election_id: Some(Uint128 { high: 0, low: election }),
        action: Action::Verify as i32,
        config: Some(config_of(&program(), 7)),
        ..SetForwardingPipelineConfigRequest::default()
    };
    for (request, wanted) in [
        (verify(2, "", DEVICE), Code::PermissionDenied),
        (verify(1, "nobody", DEVICE), Code::NotFound),
        (verify(1, "", 6), Code::NotFound),
    ] {
        assert_eq!(code(client.clone().rpc.set_forwarding_pipeline_config(request).await), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_answered() {
    let served = served().await;
    let mut client = served.client().await;
    let all = config_of(&program(), 1);
    assert_eq!(client.pipeline().await.unwrap(), Some(all.clone()), "as it was set");
    let request = |device_id, response_type| GetForwardingPipelineConfigRequest { device_id, response_type };
    for (response_type, info, device_config) in [
        (ResponseType::CookieOnly, false, false),
        (ResponseType::P4infoAndCookie, true, false),
        (ResponseType::DeviceConfigAndCookie, false, true),
    ] {
        let got = client.rpc.get_forwarding_pipeline_config(request(DEVICE, response_type as i32)).await.unwrap();
        let wanted = ForwardingPipelineConfig {
            p4info: all.p4info.clone().filter(|_| info),
            p4_device_config: if device_config { all.p4_device_config.clone() } else { Default::default() },
            cookie: all.cookie,
        };
        assert_eq!(got.into_inner().config, Some(wanted), "{response_type:?}");
    }
    let mut refused = async |device, kind| code(client.rpc.get_forwarding_pipeline_config(request(device, kind)).await);
    assert_eq!(refused(6, 0).await, Code::NotFound);
    assert_eq!(refused(DEVICE, 9).await, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities() {
    let served = served().await;
    let mut client = served.client().await;
    for device_id in [0, DEVICE] {
        let said = client.rpc.capabilities(CapabilitiesRequest { device_id }).await.unwrap().into_inner();
        assert_eq!(said.p4runtime_api_version, "1.5.0");
    }
    assert_eq!(code(client.rpc.capabilities(CapabilitiesRequest { device_id: 6 }).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_after_a_save_are_of_the_saved_config_and_replayed_by_the_commit() {
    let served = served().await;
    let device = &served.device;
    let (mut client, _stream) = served.primary().await;
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    set(&mut client, Action::VerifyAndSave, Some(config_of(&program(), 2))).await.unwrap();
    let all = || vec![entity_of(TableEntry::default())];
    assert_eq!(client.read_all(all()).await.unwrap(), [], "the saved config has no entries yet");
    client.write(vec![insert(type_entry(2)), insert(type_entry(3))], Atomicity::RollbackOnError).await.unwrap();
    let twice = vec![insert(type_entry(3)), insert(type_entry(4))];
    assert_eq!(code(client.write(twice, Atomicity::ContinueOnError).await), Code::Unknown);
    assert_eq!(client.read_all(all()).await.unwrap().len(), 3);
    assert_eq!((device.entries(), device.running().unwrap().cookie), (1, Some(1)), "what runs is as before");
    set(&mut client, Action::Commit, None).await.unwrap();
    assert_eq!((device.entries(), device.running().unwrap().cookie), (3, Some(2)));
    client.write(vec![update(update::Type::Delete, type_entry(2))], Atomicity::ContinueOnError).await.unwrap();
    assert_eq!(client.read_all(all()).await.unwrap().len(), 2);
    // A saved config is discarded when another one is committed.
    set(&mut client, Action::VerifyAndSave, Some(config_of(&other_program(), 3))).await.unwrap();
    set(&mut client, Action::VerifyAndCommit, Some(config_of(&program(), 4))).await.unwrap();
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    assert_eq!(device.entries(), 1);
}
