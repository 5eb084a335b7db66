//! Tests TLS with client certificates, and tokens.

use crate::support::*;
use p4runtime::client::{Client, ClientTls, ConnectOptions};
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::server::{
    AccessList, ClientPermission, Credentials, ServeError, ServeOptions, Tls, TlsWhere, TokenHash, serve,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Signer of certificates.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate for a name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn server_tls(server: &Authority, clients: &Authority) -> Tls {
    let (certificate, key) = server.sign("device.test");
    Tls { certificate, key, client_authority: clients.certificate.clone() }
}

/// Returns whether a client gets a response. (TLS 1.3 reports a refused certificate only after the
/// client considers itself connected.)
async fn gets_in(served: &Served, tls: Option<ClientTls>, https: bool) -> bool {
    let uri = format!("{}://127.0.0.1:{}", if https { "https" } else { "http" }, served.port);
    let Ok(mut client) =
        within_patience(Client::connect(&uri, DEVICE, &ConnectOptions { tls, ..Default::default() })).await
    else {
        return false;
    };
    within_patience(client.rpc.capabilities(CapabilitiesRequest { device_id: 0 })).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_both_sides_are_checked() {
    let (servers, clients, strangers) =
        (Authority::new("servers"), Authority::new("clients"), Authority::new("others"));
    let credentials = Credentials::new(Some(&server_tls(&servers, &clients)), AccessList::default()).unwrap();
    let options = ServeOptions { credentials, tls_where: TlsWhere::Everywhere, ..ServeOptions::default() };
    let served = serve_program(options).await;
    let shows = |trusted: &Authority, identity, name: &str| {
        Some(ClientTls { authority: trusted.certificate.clone(), identity, server_name: Some(name.into()) })
    };
    let name = "device.test";
    let known = || Some(clients.sign("controller.test"));
    assert!(gets_in(&served, shows(&servers, known(), name), true).await);
    assert!(!gets_in(&served, shows(&servers, None, name), true).await, "no certificate");
    assert!(
        !gets_in(&served, shows(&servers, Some(strangers.sign("x.test")), name), true).await,
        "another authority's"
    );
    let (_, other_key) = clients.sign("controller.test");
    let mixed = known().map(|(certificate, _)| (certificate, other_key));
    assert!(!gets_in(&served, shows(&servers, mixed, name), true).await, "another key");
    assert!(!gets_in(&served, shows(&strangers, known(), name), true).await, "the client trusts others");
    assert!(!gets_in(&served, shows(&servers, known(), "other.test"), true).await, "the server has another name");
    assert!(!gets_in(&served, None, false).await, "no TLS");
    assert!(gets_in(&served, shows(&servers, known(), name), true).await, "strangers have done no harm");
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_there_is_no_service_without_tls() {
    let begin = async |options: ServeOptions| {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        serve(vec![listener], Arc::new(TestDevice::default()), options, std::future::ready(())).await
    };
    assert!(matches!(begin(ServeOptions::default()).await, Err(ServeError::Unprotected { .. })));
    begin(ServeOptions { tls_where: TlsWhere::Nowhere, ..ServeOptions::default() }).await.unwrap();
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let tls = server_tls(&servers, &clients);
    let credentials = Credentials::new(Some(&tls), AccessList::default()).unwrap();
    begin(ServeOptions { credentials, ..ServeOptions::default() }).await.unwrap();
    for broken in [Tls { key: "no key".into(), ..tls.clone() }, Tls { certificate: String::new(), ..tls.clone() }] {
        assert!(Credentials::new(Some(&broken), AccessList::default()).is_err(), "{broken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_powers() {
    let tokens = [
        ("reader", ClientPermission::ReadOnly),
        ("writer", ClientPermission::TableWriter),
        ("owner", ClientPermission::PipelineOwner),
    ];
    let access = AccessList { tokens: tokens.map(|(token, power)| (TokenHash::of(token), power)).to_vec() };
    let credentials = Credentials::new(None, access).unwrap();
    let served = serve_program(ServeOptions { credentials, ..ServeOptions::default() }).await;
    let client = async |token: Option<&str>| {
        let options = ConnectOptions { token: token.map(str::to_owned), ..ConnectOptions::default() };
        Client::connect(&served.uri, DEVICE, &options).await.unwrap()
    };
    for token in [None, Some("wrong"), Some("")] {
        let mut client = client(token).await;
        assert_eq!(code(client.pipeline().await), Code::Unauthenticated);
        assert_eq!(code(client.read_all(vec![]).await), Code::Unauthenticated);
        assert_eq!(code(client.write(vec![], Atomicity::ContinueOnError).await), Code::Unauthenticated);
        assert_eq!(code(client.stream().await.map(drop)), Code::Unauthenticated);
        assert_eq!(code(client.rpc.capabilities(CapabilitiesRequest::default()).await), Code::Unauthenticated);
        assert_eq!(code(set(&mut client, Action::Commit, None).await), Code::Unauthenticated);
    }
    let (mut reader, mut writer, mut owner) =
        (client(Some("reader")).await, client(Some("writer")).await, client(Some("owner")).await);
    assert_eq!(code(reader.arbitrate(Some(1)).await.map(drop)), Code::PermissionDenied, "it can't be primary");
    reader.arbitrate(None).await.unwrap();
    assert!(reader.read_all(vec![]).await.is_ok() && reader.pipeline().await.is_ok());
    reader.election = Some(1);
    let _stream = become_primary(&mut writer, 1).await;
    assert_eq!(code(reader.write(vec![], Atomicity::ContinueOnError).await), Code::PermissionDenied);
    writer.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.unwrap();
    let config = || Some(config_of(&program(), 2));
    assert_eq!(code(set(&mut writer, Action::Verify, config()).await), Code::PermissionDenied);
    owner.election = Some(1);
    set(&mut owner, Action::Verify, config()).await.unwrap();
}
