//! `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` (P4Runtime specification,
//! sections of these names).

use super::agreement;
use super::core::ServerState;
use crate::proto::config::P4Info;
use crate::proto::v1::forwarding_pipeline_config::Cookie;
use crate::proto::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::v1::set_forwarding_pipeline_config_request::Action;
use crate::proto::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, SetForwardingPipelineConfigRequest,
};
use crate::{Code, P4RuntimeError, PipelineConfig, ReconcileMode};
use prost::Message;

impl ServerState {
    /// Executes a request of a primary with full access; the caller holds the write guard. Can
    /// block. Returns the differences between the client's P4Info and the device config that have
    /// no effect.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`: no action, no config or a superfluous one, or one that contradicts
    /// itself. `NOT_FOUND`: no saved config to commit. Errors of the device.
    pub fn set_pipeline(&self, request: SetForwardingPipelineConfigRequest) -> Result<Vec<String>, P4RuntimeError> {
        let action = match Action::try_from(request.action) {
            Ok(Action::Unspecified) | Err(_) => {
                return Err(P4RuntimeError::invalid(
                    "the action is missing or not known; give VERIFY, VERIFY_AND_SAVE, ...",
                ));
            }
            Ok(action) => action,
        };
        if action == Action::Commit {
            return self.commit_saved(request.config).map(|()| Vec::new());
        }
        let Some(config) = request.config else {
            return Err(P4RuntimeError::invalid(format!("{} takes a config, and there is none", action.as_str_name())));
        };
        let (forwarding, differences) = self.verify(config)?;
        match action {
            Action::VerifyAndSave => self.device.save(&forwarding),
            Action::VerifyAndCommit => self.commit(&forwarding, ReconcileMode::Nothing),
            Action::ReconcileAndCommit => self.commit(&forwarding, ReconcileMode::ValidObjects),
            Action::Verify | Action::Commit | Action::Unspecified => Ok(()),
        }?;
        Ok(differences)
    }

    fn commit_saved(&self, config: Option<ForwardingPipelineConfig>) -> Result<(), P4RuntimeError> {
        if config.is_some() {
            return Err(P4RuntimeError::invalid("COMMIT takes the config that was saved; leave the config out"));
        }
        // Works on a copy, so that the lock is not held while the device works; the write guard
        // excludes other writes. If the device rejects the config, it still awaits `COMMIT` with
        // its writes.
        let Some(waiting) = self.saved()?.clone() else {
            return Err(P4RuntimeError::not_found("no config is saved; save one with VERIFY_AND_SAVE"));
        };
        waiting.commit(&*self.device)?;
        let digests = waiting.digests;
        self.digests().configure(&Default::default());
        // Updates the program to the running one.
        self.program()?;
        self.set_digests(&digests)
    }

    fn verify(&self, config: ForwardingPipelineConfig) -> Result<(PipelineConfig, Vec<String>), P4RuntimeError> {
        let Some(theirs) = &config.p4info else {
            return Err(P4RuntimeError::invalid("the config has no P4Info; give the one made with the device config"));
        };
        let pipeline = self.device.verify(&config.p4_device_config)?;
        let differences = agreement::check_agreement(&pipeline, theirs)?;
        let forwarding = PipelineConfig {
            pipeline,
            p4info: theirs.encode_to_vec().into(),
            device_config: config.p4_device_config,
            cookie: config.cookie.map(|cookie| cookie.cookie),
        };
        Ok((forwarding, differences))
    }

    fn commit(&self, forwarding: &PipelineConfig, keep: ReconcileMode) -> Result<(), P4RuntimeError> {
        self.device.commit(forwarding, keep)?;
        if keep == ReconcileMode::Nothing {
            self.digests().configure(&Default::default());
        }
        // Updates the program to the running one.
        self.program()?;
        let digests = self.digests().configs();
        if digests.is_empty() { Ok(()) } else { self.device.keep_digests(&digests) }
    }

    /// Returns the requested parts of the running config; `None` if no pipeline runs.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device. `INVALID_ARGUMENT`: an unknown type of response.
    pub fn get_pipeline(
        &self,
        request: &GetForwardingPipelineConfigRequest,
    ) -> Result<Option<ForwardingPipelineConfig>, P4RuntimeError> {
        self.clients().arbitration.check_device(request.device_id)?;
        let response_type = ResponseType::try_from(request.response_type)
            .map_err(|_| P4RuntimeError::invalid(format!("response type {} is not known", request.response_type)))?;
        let Some(running) = self.device.running() else { return Ok(None) };
        let mut config = ForwardingPipelineConfig {
            cookie: running.cookie.map(|cookie| Cookie { cookie }),
            ..ForwardingPipelineConfig::default()
        };
        if matches!(response_type, ResponseType::All | ResponseType::P4infoAndCookie) {
            let info = P4Info::decode(running.p4info).map_err(|error| {
                P4RuntimeError::new(Code::DataLoss, format!("the P4Info that was kept is damaged: {error}"))
            })?;
            config.p4info = Some(info);
        }
        if matches!(response_type, ResponseType::All | ResponseType::DeviceConfigAndCookie) {
            config.p4_device_config = running.device_config;
        }
        Ok(Some(config))
    }
}
