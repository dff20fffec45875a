//! The most frequent error of a run's failed requests. It is recorded next to the detail of a failure or a doubt, so that no text has to be
//! parsed.

use crate::printable::message;
use serde::{Deserialize, Serialize};

/// The most frequent error of a run's requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestError {
    /// HTTP status of the answers; `None` unless there were answers with a status other than 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The error in one line, with the status: `HTTP 503: overloaded`.
    pub said: String,
}

impl RequestError {
    /// Returns the error of requests that were answered with this status.
    pub fn new(status: Option<u16>, said: &str) -> RequestError {
        let said = message(said);
        RequestError { status, said }
    }

    /// Reads an error from its text, because saved results of benchmarks have nothing else. The status is read from the beginning of the
    /// text: `HTTP 503`.
    pub fn read(said: &str) -> RequestError {
        let digits = said.strip_prefix("HTTP ").and_then(|rest| rest.get(..3));
        RequestError::new(digits.and_then(|digits| digits.parse().ok()), said)
    }

    /// Returns true if the server objects to the requests themselves, so that no other load helps.
    pub fn is_of_client(&self) -> bool {
        self.status
            .is_some_and(|status| (400..500).contains(&status) && status != 408 && status != 429)
    }

    /// Appends the most frequent error, if there is one, to the detail of a failure or a doubt.
    pub(crate) fn append_to(detail: String, commonest: Option<&RequestError>) -> String {
        match commonest {
            Some(error) => format!("{detail}, most often with: {}", error.said),
            None => detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_error_tells_its_status() {
        let busy = RequestError::read("HTTP 503: busy");
        assert_eq!((busy.status, busy.said.as_str()), (Some(503), "HTTP 503: busy"));
        assert_eq!(RequestError::read("nothing came for 1 s").status, None);
        let of_client = [400, 401, 404, 408, 429, 500].map(|status| RequestError::new(Some(status), "").is_of_client());
        assert_eq!(of_client, [true, true, true, false, false, false]);
        let detail = RequestError::append_to("3 of 9 requests failed".into(), Some(&busy));
        assert_eq!(detail, "3 of 9 requests failed, most often with: HTTP 503: busy");
    }
}
