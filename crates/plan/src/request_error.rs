//! What failed requests of one run said most often: a value beside the detail of a failure or a doubt, so that nothing has to be read
//! back from that text.

use crate::printable::printable;
use serde::{Deserialize, Serialize};

/// The commonest error of a run's requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestError {
    /// The HTTP status of the answers; none where no answer with another status than 200 came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// In one line, with the status: `HTTP 503: overloaded`.
    pub said: String,
}

/// What stands before it at the end of a detail.
const MOST_OFTEN: &str = "most often with: ";

impl RequestError {
    /// What requests said that were answered with this status.
    pub fn new(status: Option<u16>, said: &str) -> RequestError {
        let said = printable(said).into_owned();
        RequestError { status, said }
    }

    /// From a text alone, as saved results of benchmarks have it.
    pub fn read(said: &str) -> RequestError {
        let digits = said.strip_prefix("HTTP ").and_then(|rest| rest.get(..3));
        RequestError::new(digits.and_then(|digits| digits.parse().ok()), said)
    }

    /// As it was recorded beside a detail; records before 2.6 have it in the detail alone.
    pub fn recorded(error: Option<&RequestError>, detail: &str) -> Option<RequestError> {
        let in_detail = || {
            let begin = detail.find(MOST_OFTEN).map(|at| at + MOST_OFTEN.len());
            Some(RequestError::read(&detail[begin.or_else(|| detail.find("HTTP "))?..]))
        };
        error.cloned().or_else(in_detail)
    }

    /// The detail of a failure or a doubt that ends in the commonest error, if there is one.
    pub(crate) fn tell(detail: String, commonest: Option<&RequestError>) -> String {
        match commonest {
            Some(error) => format!("{detail}, {MOST_OFTEN}{}", error.said),
            None => detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_records_have_it_in_their_details() {
        let status = |detail: &str| RequestError::recorded(None, detail).map(|error| (error.status, error.said));
        let busy = Some((Some(503), "HTTP 503: busy".to_owned()));
        assert_eq!(status("3 of 9 requests failed, most often with: HTTP 503: busy"), busy);
        assert_eq!(status("3 of 9 requests failed, most with HTTP 503: busy"), busy);
        let silent = Some((None, "nothing came for 1 s".to_owned()));
        assert_eq!(
            status("3 of 9 requests failed, most often with: nothing came for 1 s"),
            silent
        );
        assert_eq!(status("no request completed"), None);
        let recorded = RequestError::new(Some(400), "HTTP 400");
        let read = RequestError::recorded(Some(&recorded), "most often with: HTTP 503");
        assert_eq!(read, Some(recorded));
    }
}
