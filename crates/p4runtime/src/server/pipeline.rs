//! `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` (P4Runtime specification, sections of these names).

use super::agreement;
use super::core::Core;
use crate::proto::config::P4Info;
use crate::proto::v1::forwarding_pipeline_config::Cookie;
use crate::proto::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::v1::set_forwarding_pipeline_config_request::Action;
use crate::proto::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, SetForwardingPipelineConfigRequest,
};
use crate::{Code, Forwarding, Keep, Refusal};
use prost::Message;

impl Core {
    /// Works on a request whose sender is primary and has full access; the caller holds the turn. May take its time.
    /// Gives the places in which the client's P4Info differs from that of the device config without consequence.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`: no action, no config (or one where none is wanted), one that contradicts itself. `NOT_FOUND`: nothing was
    /// saved that could be committed. What the device refuses.
    pub fn set_pipeline(&self, request: SetForwardingPipelineConfigRequest) -> Result<Vec<String>, Refusal> {
        let action = match Action::try_from(request.action) {
            Ok(Action::Unspecified) | Err(_) => {
                return Err(Refusal::invalid("the action is missing or not known; give VERIFY, VERIFY_AND_SAVE, ..."));
            }
            Ok(action) => action,
        };
        if action == Action::Commit {
            return self.commit_saved(request.config).map(|()| Vec::new());
        }
        let Some(config) = request.config else {
            return Err(Refusal::invalid(format!("{} takes a config, and there is none", action.as_str_name())));
        };
        let (forwarding, differences) = self.verify(config)?;
        match action {
            Action::VerifyAndSave => self.device.save(&forwarding),
            Action::VerifyAndCommit => self.commit(&forwarding, Keep::Nothing),
            Action::ReconcileAndCommit => self.commit(&forwarding, Keep::WhatFits),
            Action::Verify | Action::Commit | Action::Unspecified => Ok(()),
        }?;
        Ok(differences)
    }

    fn commit_saved(&self, config: Option<ForwardingPipelineConfig>) -> Result<(), Refusal> {
        if config.is_some() {
            return Err(Refusal::invalid("COMMIT takes the config that was saved; leave the config out"));
        }
        // A copy, so that nobody waits for the lock while the device works; the turn keeps writes away. If the device does not take it, it still waits,
        // with its writes.
        let Some(waiting) = self.saved()?.clone() else {
            return Err(Refusal::not_found("no config is saved; save one with VERIFY_AND_SAVE"));
        };
        waiting.commit(&*self.device)?;
        let digests = waiting.digests;
        self.digests().configure(&Default::default());
        // Looks at what runs now.
        self.program()?;
        self.configure(&digests)
    }

    fn verify(&self, config: ForwardingPipelineConfig) -> Result<(Forwarding, Vec<String>), Refusal> {
        let Some(theirs) = &config.p4info else {
            return Err(Refusal::invalid("the config has no P4Info; give the one made with the device config"));
        };
        let pipeline = self.device.verify(&config.p4_device_config)?;
        let differences = agreement::check(&pipeline, theirs)?;
        let forwarding = Forwarding {
            pipeline,
            p4info: theirs.encode_to_vec().into(),
            device_config: config.p4_device_config,
            cookie: config.cookie.map(|cookie| cookie.cookie),
        };
        Ok((forwarding, differences))
    }

    fn commit(&self, forwarding: &Forwarding, keep: Keep) -> Result<(), Refusal> {
        self.device.commit(forwarding, keep)?;
        if keep == Keep::Nothing {
            self.digests().configure(&Default::default());
        }
        // Looks at what runs now.
        self.program()?;
        let digests = self.digests().configs();
        if digests.is_empty() { Ok(()) } else { self.device.keep_digests(&digests) }
    }

    /// What runs, as far as it is asked for; `None` if nothing does.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device. `INVALID_ARGUMENT`: an unknown type of response.
    pub fn get_pipeline(
        &self,
        request: &GetForwardingPipelineConfigRequest,
    ) -> Result<Option<ForwardingPipelineConfig>, Refusal> {
        self.clients().arbitration.check_device(request.device_id)?;
        let wanted = ResponseType::try_from(request.response_type)
            .map_err(|_| Refusal::invalid(format!("response type {} is not known", request.response_type)))?;
        let Some(running) = self.device.running() else { return Ok(None) };
        let mut config = ForwardingPipelineConfig {
            cookie: running.cookie.map(|cookie| Cookie { cookie }),
            ..ForwardingPipelineConfig::default()
        };
        if matches!(wanted, ResponseType::All | ResponseType::P4infoAndCookie) {
            let info = P4Info::decode(running.p4info).map_err(|error| {
                Refusal::new(Code::DataLoss, format!("the P4Info that was kept is damaged: {error}"))
            })?;
            config.p4info = Some(info);
        }
        if matches!(wanted, ResponseType::All | ResponseType::DeviceConfigAndCookie) {
            config.p4_device_config = running.device_config;
        }
        Ok(Some(config))
    }
}
