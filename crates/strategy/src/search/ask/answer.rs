//! Formulates the answer for a target once its search is over: the verdict, the interval around the limit, and notes for the reader. The
//! search itself decides when it is over and at which load.

use super::{RISK_ABOVE, RISK_BELOW, Settings, View};
use crate::search::Vary;
use crate::search::posterior::LimitPosterior;
use crate::search::probe::{BRIEF_S, KEEPS_UP};
use crate::search::target::{Answer, Found, PooledLevel, at};

impl View<'_> {
    pub(super) fn answer(&self, found: Found) -> Answer {
        match found.value().and_then(|value| self.starved_answer(found, value)) {
            Some(answer) => answer,
            None => self.plain_answer(found),
        }
    }

    /// Returns the answer if even the highest load that is not too high brings too little throughput or goodput. A lower load brings less,
    /// and a higher load at most proportionally more. So the target is out of reach if it lacks a larger factor than that from this load to
    /// the interval's upper end. A goodput that a higher load reached is not out of reach.
    fn starved_answer(&self, found: Found, value: f64) -> Option<Answer> {
        let (criterion, lack) = self.target.starving(&self.search.probes, value)?;
        let reach = self.interval(found).1 / value;
        let mut probes = self.search.probes.iter();
        let is_met = criterion.is_goodput() && probes.any(|probe| self.target.is_met_by(&[probe]) == Some(true));
        let is_out_of_reach = !is_met && (matches!(found, Found::Beyond(_)) || lack > reach);
        let at = self.load(value);
        let note = match is_met {
            true => format!(
                "{at} brings too little, and only higher loads met the target; send more requests per run (num_prompts)"
            ),
            false => format!(
                "the target's throughput is not reached: even {at}, the highest load within the other limits, brings too little"
            ),
        };
        let mut answer = self.plain_answer(if is_out_of_reach { Found::None } else { Found::Undecided });
        answer.binding = Some(criterion.to_string());
        if is_out_of_reach {
            // No limit lies between two loads here, so the interval has no upper end.
            answer.high = f64::INFINITY;
        }
        answer.notes = vec![note];
        answer.posterior = None;
        Some(answer)
    }

    fn plain_answer(&self, found: Found) -> Answer {
        let (low, high) = self.interval(found);
        let nearest = match found {
            Found::Met(value) | Found::Beyond(value) => Some(value),
            Found::None => Some(self.search.settings.lower),
            Found::Undecided | Found::Skipped => self
                .levels
                .iter()
                .min_by(|a, b| a.margin.abs().total_cmp(&b.margin.abs()))
                .map(|level| level.value),
        };
        let met = match found {
            Found::Met(value) => Some(value),
            _ => None,
        };
        let notes = [
            self.dip_note(),
            self.doubt_note(low, high),
            self.overload_note(low),
            self.missing_note(found),
            self.undecided_note(found),
            self.spoilt_note(found),
        ];
        let may_not_last = [self.brief_note(found), self.queue_note(found)];
        let concerned = self.search.probes.iter().filter(|probe| self.target.concerns(probe));
        let disturbed = concerned.clone().filter(|probe| probe.is_disturbed());
        let Settings { vary, tolerance, .. } = self.search.settings;
        let within = met.map(|value| (vary.floor(high) / value - 1.0).max(0.0));
        Answer {
            target: self.target.name.clone(),
            found,
            low,
            high,
            within,
            is_coarse: within.is_some_and(|within| within > tolerance * (1.0 + 1e-9)),
            binding: nearest.and_then(|value| self.target.binding(&self.search.probes, value)),
            probes: concerned.count(),
            disturbed: disturbed.clone().count(),
            disturbances: disturbed.flat_map(|probe| probe.disturbances.clone()).collect(),
            notes: notes.into_iter().flatten().collect(),
            may_not_last: may_not_last.into_iter().flatten().collect(),
            posterior: self.posterior(found),
        }
    }

    /// Returns the answer for a server that a rival beats, wherever its own limit lies.
    pub(super) fn beaten_answer(&self, bound: f64, why: String) -> Answer {
        let mut answer = self.answer(Found::Skipped);
        answer.low = self.best().map_or(0.0, |best| best.value);
        answer.high = bound;
        answer.notes = vec![why];
        answer
    }

    /// Returns the loads between which the limit lies. The upper end is infinite if nothing bounds the limit from above. It is the highest
    /// load allowed if the limit may lie there or above.
    pub(super) fn interval(&self, found: Found) -> (f64, f64) {
        let Settings { lower, upper, .. } = self.search.settings;
        let (low, high) = (
            self.boundary.quantile(RISK_BELOW),
            self.boundary.quantile(1.0 - RISK_ABOVE),
        );
        let low = match found {
            Found::None => return (0.0, lower),
            Found::Beyond(_) => return (upper, f64::INFINITY),
            Found::Met(value) => value,
            Found::Undecided | Found::Skipped => low,
        };
        if self.is_unbounded() {
            return (low, f64::INFINITY);
        }
        (low, high.min(upper).max(low))
    }

    /// Returns the distribution of the limit. If no run decided anything, an undecided target has the prior, by which the server may
    /// hold any load, and any other target has none.
    fn posterior(&self, found: Found) -> Option<LimitPosterior> {
        let Settings { lower, upper, .. } = self.search.settings;
        (found == Found::Undecided || !self.levels.is_empty()).then(|| LimitPosterior::of(self.boundary, lower, upper))
    }

    /// Returns a load as text: `concurrency 8`.
    fn load(&self, value: f64) -> String {
        format!("{} {value}", self.search.settings.vary.word())
    }

    /// Returns the levels above a load, lowest first.
    fn above(&self, load: f64) -> impl Iterator<Item = &PooledLevel> {
        self.levels.iter().filter(move |level| level.value > load)
    }

    fn dip_note(&self) -> Option<String> {
        let at = self.load(self.dip?.value);
        Some(format!(
            "not monotone: {at} misses the target although a higher load meets it; the answer is therefore lower"
        ))
    }

    /// Note for a load that was measured as failing, although the limit may lie above it.
    fn doubt_note(&self, low: f64, high: f64) -> Option<String> {
        let mut inside = self.above(low).take_while(|level| level.value < high);
        let failed = self.load(inside.find(|level| level.margin > 0.0)?.value);
        Some(format!(
            "{failed} missed the target, but by no more than noise explains"
        ))
    }

    /// Note for a limit below a load that was too high whatever its figures: no criterion explains its position.
    fn overload_note(&self, low: f64) -> Option<String> {
        let failed = self.above(low).find(|level| level.margin > 0.0)?.value;
        let load = self.load(failed);
        let mut overloaded = at(&self.search.probes, failed).filter(|probe| probe.is_overloaded());
        Some(match overloaded.next()?.served {
            Some(served) => format!(
                "at {load} only {served:.1} requests per second were answered, and requests waited longer and longer: the \
                 server does not sustain it"
            ),
            None => format!("at {load} the run itself failed; see its cause in summary.csv"),
        })
    }

    /// Note for runs at the answer itself that missed the target, although all of them together meet it.
    fn missing_note(&self, found: Found) -> Option<String> {
        let value = found.value()?;
        let (runs, missing) = self.runs_missing(value);
        (missing > 0).then(|| {
            let at = self.load(value);
            format!("{missing} of {runs} runs at {at} missed the target, but all {runs} together meet it")
        })
    }

    /// Note for an undecided target: what is known of it, and how to learn more.
    fn undecided_note(&self, found: Found) -> Option<String> {
        if found != Found::Undecided {
            return None;
        }
        let most = self.search.settings.max_probes;
        let known = match self.passed().next() {
            Some(level) => format!("{} met the target, but not beyond doubt", self.load(level.value)),
            None => "no load met the target".to_owned(),
        };
        let lowest = self.search.lowest();
        if lowest > self.search.settings.lower {
            let at = self.load(lowest);
            return Some(format!(
                "{known}; runs below {at} do not end in time: raise bench.timeout, or send fewer requests there (num_prompts)"
            ));
        }
        Some(match self.spoilt().filter(|probe| probe.is_disturbed()).count() {
            0 => format!("{known}; raise sla.max_probes (now {most}), or send more requests per run (num_prompts)"),
            spoilt => format!(
                "{known}; runs that missed the target while disturbed show nothing ({spoilt}): measure again on a quiet \
                 machine, or raise sla.max_probes (now {most})"
            ),
        })
    }

    /// Note for the lowest rate whose runs decided nothing because they were too short, unless those of the answer are.
    fn spoilt_note(&self, found: Found) -> Option<String> {
        let rates = self.spoilt().map(|probe| probe.question.value);
        let lowest = rates.filter(|rate| self.brief(*rate).is_some()).reduce(f64::min)?;
        self.brief(lowest).filter(|_| self.brief_note(found).is_none())
    }

    /// Note for an answer whose runs are too short to show what happens when the rate lasts.
    fn brief_note(&self, found: Found) -> Option<String> {
        self.brief(found.value()?)
    }

    /// Says that runs at a rate are too short to show whether it lasts, if they are.
    fn brief(&self, value: f64) -> Option<String> {
        let Settings { vary, requests, .. } = self.search.settings;
        let seconds = requests.at(value) as f64 / value;
        (vary == Vary::RequestRate && seconds < BRIEF_S).then(|| {
            format!(
                "at {} a run sends all requests within {seconds:.1} s, too short to show a lasting load; raise num_prompts",
                self.load(value)
            )
        })
    }

    /// Note for a rate above the server's throughput: waiting times then depend on the number of requests in a run.
    fn queue_note(&self, found: Found) -> Option<String> {
        let value = found
            .value()
            .filter(|_| self.search.settings.vary == Vary::RequestRate)?;
        let served = at(&self.search.probes, value)
            .filter_map(|probe| probe.served)
            .reduce(f64::max)?;
        (served < KEEPS_UP * value).then(|| {
            format!(
                "only {served:.1} of {value} requests per second were answered, in a run too short to show whether the queue \
                 grows; send more (num_prompts) before you plan for this rate"
            )
        })
    }
}
