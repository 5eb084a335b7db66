//! A thin client of a P4Runtime service: one device, one role. For our own tools and tests.

use crate::proto::v1::forwarding_pipeline_config::Cookie;
use crate::proto::v1::p4_runtime_client::P4RuntimeClient;
use crate::proto::v1::set_forwarding_pipeline_config_request::Action;
use crate::proto::v1::stream_message_request::Update as Out;
use crate::proto::v1::write_request::Atomicity;
use crate::proto::v1::*;
use crate::server::WARNING_KEY;
use crate::server::arbitration::uint128;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};

/// What a client shows, and whom it trusts; each the text of a PEM file.
#[derive(Clone)]
pub struct ClientTls {
    /// The server's certificate is signed with one of these.
    pub authority: String,
    /// The client's certificate and its key.
    pub identity: Option<(String, String)>,
    /// The name in the server's certificate, if it is not that of the address.
    pub server_name: Option<String>,
}

/// How to reach a server.
#[derive(Clone)]
pub struct ConnectOptions {
    /// `None`: no TLS.
    pub tls: Option<ClientTls>,
    /// For `authorization: Bearer ...`.
    pub token: Option<String>,
    /// How long connecting may take.
    pub connect_time: Duration,
    /// The longest message taken, in bytes.
    pub message_bytes: usize,
    /// The longest status taken, in bytes: refusals of large writes list each update.
    pub status_bytes: u32,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        let connect_time = Duration::from_secs(10);
        ConnectOptions { tls: None, token: None, connect_time, message_bytes: 64 << 20, status_bytes: 16 << 20 }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address, the certificates, or nobody is there.
    #[error("cannot connect: {0:?}")]
    Transport(#[from] tonic::transport::Error),
    /// A token that can't be sent.
    #[error("the token has characters that cannot be sent")]
    Token,
}

/// Adds the token to each request.
#[derive(Clone)]
pub struct Token(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A connection to a server, as one client of one device.
#[derive(Clone)]
pub struct Client {
    /// The RPCs as they are.
    pub rpc: P4RuntimeClient<InterceptedService<Channel, Token>>,
    /// The device.
    pub device: u64,
    /// The role; empty for the default role.
    pub role: Role,
    /// What writes carry; set by [`Client::arbitrate`].
    pub election: Option<u128>,
}

/// An open stream.
pub struct Stream {
    outbound: mpsc::Sender<StreamMessageRequest>,
    inbound: Streaming<StreamMessageResponse>,
}

impl Client {
    /// Connects to `http://...` or `https://...`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(uri: &str, device: u64, options: &ConnectOptions) -> Result<Client, ConnectError> {
        let mut endpoint = Endpoint::from_shared(uri.to_owned())?
            .connect_timeout(options.connect_time)
            .http2_max_header_list_size(options.status_bytes)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_while_idle(true);
        if let Some(tls) = &options.tls {
            let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authority));
            if let Some((certificate, key)) = &tls.identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            if let Some(name) = &tls.server_name {
                config = config.domain_name(name);
            }
            endpoint = endpoint.tls_config(config)?;
        }
        let token = match &options.token {
            Some(token) => Some(format!("Bearer {token}").parse().map_err(|_| ConnectError::Token)?),
            None => None,
        };
        let rpc = P4RuntimeClient::with_interceptor(endpoint.connect().await?, Token(token))
            .max_decoding_message_size(options.message_bytes);
        Ok(Client { rpc, device, role: Role::default(), election: None })
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn stream(&mut self) -> Result<Stream, Status> {
        let (outbound, requests) = mpsc::channel(64);
        let inbound = self.rpc.stream_channel(ReceiverStream::new(requests)).await?.into_inner();
        Ok(Stream { outbound, inbound })
    }

    /// The message that asks for an election id in the client's role.
    pub fn claim(&self, election: Option<u128>) -> MasterArbitrationUpdate {
        let role = (self.role != Role::default()).then(|| self.role.clone());
        let election_id = election.map(uint128);
        MasterArbitrationUpdate { device_id: self.device, role, election_id, status: None }
    }

    /// Opens a stream, asks for an election id, and returns what the server says to that: its status is OK if the client is primary.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn arbitrate(&mut self, election: Option<u128>) -> Result<(Stream, MasterArbitrationUpdate), Status> {
        self.election = election;
        let claim = self.claim(election);
        let mut stream = self.stream().await?;
        stream.send(Out::Arbitration(claim)).await?;
        loop {
            match stream.next().await?.and_then(|message| message.update) {
                Some(stream_message_response::Update::Arbitration(update)) => return Ok((stream, update)),
                Some(_) => {}
                None => return Err(Status::unavailable("the stream ended before the server said who is primary")),
            }
        }
    }

    /// Writes updates.
    ///
    /// # Errors
    /// With an error for each update in [`crate::server::parts_of`], or with none if the request as a whole was refused.
    pub async fn write(&mut self, updates: Vec<Update>, atomicity: Atomicity) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: self.device,
            role: self.role.name.clone(),
            election_id: self.election.map(uint128),
            updates,
            atomicity: atomicity as i32,
            ..WriteRequest::default()
        };
        self.rpc.write(request).await.map(drop)
    }

    /// Reads what fits the entities.
    ///
    /// # Errors
    /// If the server refuses it; later refusals are in the stream.
    pub async fn read(&mut self, entities: Vec<Entity>) -> Result<Streaming<ReadResponse>, Status> {
        let request = ReadRequest { device_id: self.device, role: self.role.name.clone(), entities };
        Ok(self.rpc.read(request).await?.into_inner())
    }

    /// Reads what fits the entities, all of it.
    ///
    /// # Errors
    /// If the server refuses a part.
    pub async fn read_all(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, Status> {
        let mut parts = self.read(entities).await?;
        let mut all = Vec::new();
        while let Some(part) = parts.message().await? {
            all.extend(part.entities);
        }
        Ok(all)
    }

    /// Sets the pipeline. Gives the server's warnings: where the P4Info differs from the device config without consequence.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn set_pipeline(
        &mut self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<Vec<String>, Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device,
            role: self.role.name.clone(),
            election_id: self.election.map(uint128),
            action: action as i32,
            config,
            ..SetForwardingPipelineConfigRequest::default()
        };
        let response = self.rpc.set_forwarding_pipeline_config(request).await?;
        let warnings = response.metadata().get_all(WARNING_KEY).iter();
        Ok(warnings.filter_map(|warning| warning.to_str().ok()).map(str::to_owned).collect())
    }

    /// What runs; `None` if nothing does.
    ///
    /// # Errors
    /// If the server refuses to say.
    pub async fn pipeline(&mut self) -> Result<Option<ForwardingPipelineConfig>, Status> {
        let request = GetForwardingPipelineConfigRequest { device_id: self.device, response_type: 0 };
        Ok(self.rpc.get_forwarding_pipeline_config(request).await?.into_inner().config)
    }
}

impl Stream {
    /// Sends a message.
    ///
    /// # Errors
    /// If the stream has ended; [`Stream::next`] says why.
    pub async fn send(&self, update: Out) -> Result<(), Status> {
        let message = StreamMessageRequest { update: Some(update) };
        self.outbound.send(message).await.map_err(|_| Status::unavailable("the stream has ended"))
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// If the server ends the stream with a refusal.
    pub async fn next(&mut self) -> Result<Option<StreamMessageResponse>, Status> {
        self.inbound.message().await
    }
}

/// A config with a cookie.
pub fn forwarding(
    p4info: crate::proto::config::P4Info,
    device_config: Vec<u8>,
    cookie: u64,
) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info),
        p4_device_config: device_config.into(),
        cookie: Some(Cookie { cookie }),
    }
}
