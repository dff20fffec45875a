//! A server config that holds more than the current one can, which is a reason to end a search early if the plan allows it. The caller
//! chooses the rival.

use serde::{Deserialize, Serialize};

/// The best answer of the other server configs for one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// The target's name.
    pub target: String,
    /// The server config, for people.
    pub server: String,
    /// The highest load at which it was measured to meet the target.
    pub load: f64,
    /// Load that the simulator predicts for the current server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<f64>,
}

/// Factor by which a forecast may be too low: twice its typical error, since it is not a strict bound.
const FORECAST_REACH: f64 = 4.0;

impl Rival {
    /// Returns an upper bound of the current server's load that does not exceed the rival's, with the reason. `None` if the server may
    /// still win. `highest` is the highest load that may be tried, `measured` the highest that the server may hold according to the
    /// measurements so far.
    pub(super) fn beats(&self, highest: f64, measured: Option<f64>) -> Option<(f64, String)> {
        let Rival { server, load, .. } = self;
        let unbeaten = |why: String| format!("not searched further: {server} holds {load}, and {why}");
        let reach = self.forecast.map(|forecast| (forecast * FORECAST_REACH, forecast));
        if highest <= *load {
            return Some((highest, unbeaten("no higher load is tried".to_owned())));
        }
        if let Some(limit) = measured.filter(|limit| limit <= load) {
            return Some((limit, unbeaten(format!("this one holds at most {limit}"))));
        }
        let (reach, forecast) = reach.filter(|(reach, _)| reach <= load)?;
        let why = format!("the simulator predicts {forecast} here, and even {FORECAST_REACH} times that is not more");
        Some((reach, unbeaten(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rival(forecast: Option<f64>) -> Rival {
        Rival {
            target: "chat".into(),
            server: "tp=2".into(),
            load: 100.0,
            forecast,
        }
    }

    #[test]
    fn only_a_server_that_cannot_win_is_left() {
        assert_eq!(rival(None).beats(8192.0, None), None);
        assert_eq!(rival(Some(26.0)).beats(8192.0, Some(101.0)), None);
        let reason = |found: Option<(f64, String)>| found.expect("beaten");
        let (bound, why) = reason(rival(None).beats(8192.0, Some(93.0)));
        assert_eq!(bound, 93.0);
        assert_eq!(
            why,
            "not searched further: tp=2 holds 100, and this one holds at most 93"
        );
        assert_eq!(reason(rival(None).beats(100.0, None)).0, 100.0);
        assert_eq!(reason(rival(Some(25.0)).beats(8192.0, None)).0, 100.0);
    }
}
