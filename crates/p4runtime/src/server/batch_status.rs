//! Status of a request of several parts: one `p4.v1.Error` for each, in `google.rpc.Status`
//! (P4Runtime specification, section "Error Reporting Messages").

use crate::proto::google::rpc;
use crate::proto::v1;
use crate::{Code, P4RuntimeError};
use prost::Message;
use tonic::Status;

/// Maximum length in bytes of all messages; beyond it, errors have only codes. Clients accept
/// metadata of a few KB to a few MB.
const MESSAGES: usize = 64 * 1024;

const ERROR_URL: &str = "type.googleapis.com/p4.v1.Error";

/// Returns OK if all parts are; otherwise `UNKNOWN` with an error for each part in order.
///
/// # Errors
/// The status `UNKNOWN`.
pub fn status_of_parts(what: &str, parts: &[Result<(), P4RuntimeError>]) -> Result<(), Status> {
    let failed = parts.iter().filter(|part| part.is_err()).count();
    let Some((at, first)) = parts.iter().enumerate().find_map(|(at, part)| Some((at, part.as_ref().err()?))) else {
        return Ok(());
    };
    let message = format!("{failed} of {} {what} failed; the first is {at}: {first}", parts.len());
    let mut room = MESSAGES;
    let details = parts.iter().map(|part| detail(part, &mut room)).collect();
    let status = rpc::Status { code: rpc::Code::Unknown as i32, message: message.clone(), details };
    Err(Status::with_details(Code::Unknown, message, status.encode_to_vec().into()))
}

fn detail(part: &Result<(), P4RuntimeError>, room: &mut usize) -> prost_types::Any {
    let error = match part {
        Ok(()) => v1::Error::default(),
        Err(refusal) => {
            let fits = refusal.message.len() <= *room;
            *room = room.saturating_sub(refusal.message.len());
            let message = if fits { refusal.message.clone() } else { String::new() };
            v1::Error { canonical_code: refusal.code as i32, message, ..v1::Error::default() }
        }
    };
    prost_types::Any { type_url: ERROR_URL.into(), value: error.encode_to_vec() }
}

/// Returns the errors of a status' parts; `None` if it has none.
pub fn parts_of(status: &Status) -> Option<Vec<v1::Error>> {
    let status = rpc::Status::decode(status.details()).ok().filter(|status| !status.details.is_empty())?;
    status.details.iter().map(|any| v1::Error::decode(any.value.as_slice()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_an_error_in_order() {
        assert!(status_of_parts("updates", &[Ok(()), Ok(())]).is_ok());
        let parts = [Ok(()), Err(P4RuntimeError::not_found("no entry")), Ok(()), Err(P4RuntimeError::invalid("no"))];
        let status = status_of_parts("updates", &parts).unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unknown, "2 of 4 updates failed; the first is 1: no entry")
        );
        let inner = rpc::Status::decode(status.details()).unwrap();
        assert_eq!((inner.code, inner.message.as_str()), (2, status.message()));
        let codes: Vec<i32> = parts_of(&status).unwrap().iter().map(|error| error.canonical_code).collect();
        assert_eq!(codes, [0, 5, 0, 3]);
    }

    #[test]
    fn messages_are_bounded_codes_are_not() {
        let parts: Vec<_> = (0..2000).map(|_| Err(P4RuntimeError::invalid("x".repeat(100)))).collect();
        let errors = parts_of(&status_of_parts("updates", &parts).unwrap_err()).unwrap();
        assert!(errors.len() == 2000 && errors.iter().all(|error| error.canonical_code == 3));
        assert_eq!(errors.iter().filter(|error| !error.message.is_empty()).count(), MESSAGES / 100);
    }
}
