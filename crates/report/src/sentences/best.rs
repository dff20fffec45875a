//! The best server of a sweep in progress, in a few words for a line that is drawn again and again.

use super::brief::{doubted, one_of_several, short_title};
use super::parts::percent;
use super::server;
use super::sure::so_far;
use vsweep_answer::{Answer, Winner};
use vsweep_base::units::show_many;

/// The best server of a sweep in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Best {
    /// The id of its config.
    pub config: String,
    /// The recommendation.
    pub text: String,
    /// The recommendation without the server: its figure and its load.
    pub reached: String,
    /// The number of its servers, if there are several: `2 × `.
    pub times: String,
    /// Its certainty: `71 % sure`.
    pub sure: String,
}

/// The best server for the first leading question that has several entrants, without the interval of its figure.
pub fn best(answer: &Answer) -> Option<Best> {
    let leading = answer.leading();
    let mut of_several = leading.iter().filter(|answered| answered.entrants.len() > 1);
    let (answered, winner) = of_several.find_map(|answered| Some((answered, answered.winner.as_ref()?)))?;
    let (title, more) = match leading.len() {
        1 => (String::new(), String::new()),
        all => {
            let noun = match answered.is_load() {
                true => "more target",
                false => "more workload",
            };
            let more = show_many(all as u64 - 1, noun);
            (short_title(answered) + ": ", format!(" (and {more})"))
        }
    };
    let figure = one_of_several(answer, answered, &pointwise(winner), true);
    let figure = doubted(figure, answered) + &more;
    let text = format!("{title}{}: {figure}", server(answer, winner));
    Some(Best {
        config: winner.config.clone(),
        text,
        reached: format!("{title}{figure}"),
        times: match winner.replicas {
            1 => String::new(),
            several => format!("{several} × "),
        },
        sure: format!("{} sure{}", percent(winner.probability), so_far(answer)),
    })
}

/// A winner whose interval is its value alone.
fn pointwise(winner: &Winner) -> Winner {
    let mut winner = winner.clone();
    (winner.value.low, winner.value.high) = (winner.value.value, winner.value.value);
    winner
}
