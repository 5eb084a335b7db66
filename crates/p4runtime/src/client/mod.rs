//! Thin client of a P4Runtime service for tools and tests: one device, one role.

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

/// TLS configuration of a client; each field is the text of a PEM file.
#[derive(Clone)]
pub struct ClientTls {
    /// Certificate authorities of the server's certificate.
    pub authority: String,
    /// The client's certificate and its key.
    pub identity: Option<(String, String)>,
    /// Name in the server's certificate, if it differs from the address.
    pub server_name: Option<String>,
}

/// Options of a connection.
#[derive(Clone)]
pub struct ConnectOptions {
    /// TLS configuration; `None`: no TLS.
    pub tls: Option<ClientTls>,
    /// Token for `authorization: Bearer ...`.
    pub token: Option<String>,
    /// Timeout of the connection setup.
    pub connect_time: Duration,
    /// Maximum length of a received message in bytes.
    pub message_bytes: usize,
    /// Maximum length of a received status in bytes. Errors of large writes list each update.
    pub status_bytes: u32,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        let connect_time = Duration::from_secs(10);
        ConnectOptions { tls: None, token: None, connect_time, message_bytes: 64 << 20, status_bytes: 16 << 20 }
    }
}

/// Error of the connection setup.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address or the certificates are wrong, or the server is unreachable.
    #[error("cannot connect: {0:?}")]
    Transport(#[from] tonic::transport::Error),
    /// The token has characters that cannot be sent.
    #[error("the token has characters that cannot be sent")]
    Token,
}

/// Interceptor that adds the token to each request.
#[derive(Clone)]
pub struct TokenInterceptor(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for TokenInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Connection to a server, as a client of one device.
#[derive(Clone)]
pub struct Client {
    /// The generated client, for plain RPCs.
    pub rpc: P4RuntimeClient<InterceptedService<Channel, TokenInterceptor>>,
    /// Device id.
    pub device: u64,
    /// The role; empty for the default role.
    pub role: Role,
    /// Election id of writes, set by [`Client::arbitrate`].
    pub election: Option<u128>,
}

/// Open stream.
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
        let rpc = P4RuntimeClient::with_interceptor(endpoint.connect().await?, TokenInterceptor(token))
            .max_decoding_message_size(options.message_bytes);
        Ok(Client { rpc, device, role: Role::default(), election: None })
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The server rejects it.
    pub async fn stream(&mut self) -> Result<Stream, Status> {
        let (outbound, requests) = mpsc::channel(64);
        let inbound = self.rpc.stream_channel(ReceiverStream::new(requests)).await?.into_inner();
        Ok(Stream { outbound, inbound })
    }

    /// Returns the arbitration message with an election id in the client's role.
    pub fn claim(&self, election: Option<u128>) -> MasterArbitrationUpdate {
        let role = (self.role != Role::default()).then(|| self.role.clone());
        let election_id = election.map(uint128);
        MasterArbitrationUpdate { device_id: self.device, role, election_id, status: None }
    }

    /// Opens a stream, sends an election id, and returns the server's arbitration update. Its
    /// status is OK if the client is primary.
    ///
    /// # Errors
    /// The server rejects the stream.
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
    /// With an error for each update in [`crate::server::parts_of`], or without if the whole
    /// request was rejected.
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

    /// Starts a read of the entities that match.
    ///
    /// # Errors
    /// The server rejects it; later errors are in the stream.
    pub async fn read(&mut self, entities: Vec<Entity>) -> Result<Streaming<ReadResponse>, Status> {
        let request = ReadRequest { device_id: self.device, role: self.role.name.clone(), entities };
        Ok(self.rpc.read(request).await?.into_inner())
    }

    /// Reads all entities that match.
    ///
    /// # Errors
    /// The server rejects a part.
    pub async fn read_all(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, Status> {
        let mut parts = self.read(entities).await?;
        let mut all = Vec::new();
        while let Some(part) = parts.message().await? {
            all.extend(part.entities);
        }
        Ok(all)
    }

    /// Sets the pipeline. Returns the server's warnings: differences between the P4Info and the
    /// device config that have no effect.
    ///
    /// # Errors
    /// The server rejects it.
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

    /// Returns the running pipeline config; `None` if there is none.
    ///
    /// # Errors
    /// The server rejects the request.
    pub async fn pipeline(&mut self) -> Result<Option<ForwardingPipelineConfig>, Status> {
        let request = GetForwardingPipelineConfigRequest { device_id: self.device, response_type: 0 };
        Ok(self.rpc.get_forwarding_pipeline_config(request).await?.into_inner().config)
    }
}

impl Stream {
    /// Sends a message.
    ///
    /// # Errors
    /// The stream has ended; [`Stream::next`] returns the reason.
    pub async fn send(&self, update: Out) -> Result<(), Status> {
        let message = StreamMessageRequest { update: Some(update) };
        self.outbound.send(message).await.map_err(|_| Status::unavailable("the stream has ended"))
    }

    /// Returns the next message; `None` at the end.
    ///
    /// # Errors
    /// The server ends the stream with an error.
    pub async fn next(&mut self) -> Result<Option<StreamMessageResponse>, Status> {
        self.inbound.message().await
    }
}

/// Creates a config with a cookie.
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
