//! The search itself: decides which load to measure next, and when a target is answered.
//!
//! Each server config has a search of its own, whose state is the list of probes passed to `add`. `ask` computes the next question from
//! that list, so replaying the probes of a journal leads to the same question.

mod answer;
mod place;
mod runs;
mod settings;

use super::Vary;
use super::boundary::Boundary;
use super::probe::{Probe, Question};
use super::seed::{Rival, Seed};
use super::target::{Answer, BEYOND_DOUBT, Found, PooledLevel, Target, levels};
use super::watch::Watch;
pub use settings::Settings;
use std::sync::OnceLock;

/// The risk that an answer lies above the boundary.
pub const RISK_BELOW: f64 = 0.005;
/// The risk that the boundary lies above the interval of an answer.
pub const RISK_ABOVE: f64 = 0.12;
/// Share of the allowed runs after which a safe answer is accepted as it is: halving its interval by repeats takes four times the runs.
const PATIENCE: f64 = 0.75;
/// Number of disturbed runs in a row after which a lower load is tried.
const REPEATS: usize = 3;
/// The lowest load that is tried after a load was too low to end in time, as a multiple of that load.
const FASTER: f64 = 2.0;
/// Number of users below which one more or less makes a difference that repeats show.
const FEW: f64 = 20.0;

/// A search for the highest load of one server config that meets each target.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    seed: Seed,
    /// The best answers of other servers.
    rivals: Vec<Rival>,
    probes: Vec<Probe>,
    /// Evidence of the probes for each target, computed when it is first needed after an `add`.
    evidence: OnceLock<Vec<Evidence>>,
}

impl Search {
    /// Returns a search that has measured nothing and starts at `seed`.
    pub fn new(mut settings: Settings, seed: Seed) -> Search {
        settings.lower = settings.vary.floor(settings.lower.max(1e-6));
        settings.upper = settings.vary.floor(settings.upper.max(settings.lower));
        Search {
            settings,
            seed,
            rivals: Vec::new(),
            probes: Vec::new(),
            evidence: OnceLock::new(),
        }
    }

    /// Makes the search compare with rivals. It measures more closely while a rival's load lies within the interval of its answer. With
    /// [`Settings::skip_beaten`] it ends for a target once its rival is known to hold at least as much as the server can.
    pub fn against(mut self, rivals: &[Rival]) -> Search {
        self.rivals = rivals.to_vec();
        self
    }

    /// Returns the answers, one for each target in the settings' order, or the next run that is needed for them.
    pub fn ask(&self) -> Result<Vec<Answer>, Question> {
        self.views().map(|view| view.next_or_skip()).collect()
    }

    /// Adds the result of a run.
    pub fn add(&mut self, probe: &Probe) {
        self.probes.push(probe.clone());
        self.note_starved();
        self.evidence = OnceLock::new();
    }

    /// Marks goodputs that missed their limit, once a load has met it: the loads below the lowest such load were too low, all others too
    /// high.
    fn note_starved(&mut self) {
        let criteria = self.settings.targets.iter().flat_map(|target| &target.criteria);
        let goodputs = criteria
            .filter(|criterion| criterion.is_goodput())
            .map(ToString::to_string);
        for text in goodputs.collect::<Vec<String>>() {
            let met = |probe: &&Probe| probe.readings.get(&text).is_some_and(|reading| reading.met);
            let meets = self.probes.iter().filter(met).map(|probe| probe.question.value);
            let Some(lowest) = meets.reduce(f64::min) else {
                continue;
            };
            for probe in &mut self.probes {
                let is_below = probe.question.value < lowest;
                if let Some(reading) = probe.readings.get_mut(&text) {
                    reading.starved = is_below && !reading.met;
                }
            }
        }
    }

    /// The probes passed to `add` so far.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Returns a watch over the run that answers a question. The run can stop once its verdict is certain about every target that is still
    /// open and can learn from this load.
    pub fn watch(&self, question: &Question) -> Watch {
        let learns = |view: &View<'_>| {
            view.target.name == question.target || (view.learns_at(question.value) && view.next_or_skip().is_err())
        };
        let open: Vec<&Target> = self.views().filter(learns).map(|view| view.target).collect();
        Watch::over(question, self.settings.vary, open.into_iter())
    }

    /// Returns the lowest load whose run is expected to end in time.
    fn lowest(&self) -> f64 {
        let Settings { lower, upper, .. } = self.settings;
        let slow = self.probes.iter().filter(|probe| probe.is_too_slow());
        let faster = slow.map(|probe| FASTER * probe.question.value);
        faster.fold(lower, f64::max).min(upper)
    }

    fn views(&self) -> impl Iterator<Item = View<'_>> {
        let targets = &self.settings.targets;
        let evidence = self
            .evidence
            .get_or_init(|| targets.iter().map(|target| Evidence::of(self, target)).collect());
        targets.iter().zip(evidence).map(|(target, evidence)| View {
            search: self,
            target,
            levels: &evidence.levels,
            boundary: &evidence.boundary,
            dip: evidence.dip,
        })
    }
}

/// The evidence of the probes about one target.
#[derive(Debug, Clone)]
struct Evidence {
    levels: Vec<PooledLevel>,
    boundary: Boundary,
    /// The lowest load that clearly failed, if a higher one clearly passed.
    dip: Option<PooledLevel>,
}

/// One target of a search, with the evidence about it.
struct View<'a> {
    search: &'a Search,
    target: &'a Target,
    levels: &'a [PooledLevel],
    boundary: &'a Boundary,
    dip: Option<PooledLevel>,
}

impl Evidence {
    fn of(search: &Search, target: &Target) -> Evidence {
        let Settings { vary, lower, upper, .. } = search.settings;
        let mut observations = target.observations(&search.probes, vary);
        let mut boundary = Boundary::infer(search.seed, lower, upper, &observations);
        let levels = levels(target, (&search.probes, vary), &observations, boundary.noise);
        let mut passes = levels.iter().filter(|level| level.score() <= -BEYOND_DOUBT);
        let highest_pass = passes.next_back().map_or(0.0, |pass| pass.value);
        let lowest_failure = levels.iter().find(|level| level.score() >= BEYOND_DOUBT);
        let dip = lowest_failure.filter(|failure| failure.value < highest_pass).copied();
        if let Some(dip) = dip {
            // Users at the dip's load would miss the target, so higher loads do not matter to them.
            observations.retain(|observation| observation.value <= dip.value);
            boundary = Boundary::infer(search.seed, lower, upper, &observations);
        }
        Evidence { levels, boundary, dip }
    }
}

impl View<'_> {
    /// Returns the answer, or the question that is needed for it. Asks nothing more about a server that is already beaten.
    fn next_or_skip(&self) -> Result<Answer, Question> {
        let decided = self.decide().map_err(|question| self.lower(self.raise(question)));
        decided.or_else(|question| match self.beaten() {
            Some((bound, why)) => Ok(self.beaten_answer(bound, why)),
            None => Err(question),
        })
    }

    /// Returns an upper bound of the server's load with the reason, if a rival holds as much.
    fn beaten(&self) -> Option<(f64, String)> {
        let Settings { vary, upper, .. } = self.search.settings;
        let rival = self.rival().filter(|_| self.search.settings.skip_beaten)?;
        // The measured limit counts only after a failure: before, its position is only the search's first guess. And it does not count if
        // every run failed altogether, because the load may not be the reason.
        let has_failed = self.levels.iter().any(|level| level.margin > 0.0);
        let has_figures = self.search.probes.iter().any(|probe| !probe.readings.is_empty());
        let measured = (has_failed && has_figures).then(|| vary.floor(self.boundary.quantile(1.0 - RISK_BELOW)));
        rival.beats(upper, measured)
    }

    fn rival(&self) -> Option<&Rival> {
        let mut rivals = self.search.rivals.iter();
        rivals.find(|rival| rival.target == self.target.name)
    }

    /// Returns the rival's load, if it is above the answer so far, `value`, but the server may still hold it.
    fn contested(&self, value: f64) -> Option<f64> {
        let load = self.rival()?.load;
        let is_open = value < load && load <= self.upper_end() && (self.runs_so_far() as f64) < self.patience();
        is_open.then_some(load)
    }

    /// Returns the answer, or the question that is needed for it, without regard to rivals that beat the server.
    fn decide(&self) -> Result<Answer, Question> {
        let settings = &self.search.settings;
        let exhausted = self.probes_so_far() >= settings.max_probes;
        if let Some(dip) = self.dip.filter(|dip| dip.runs < 2 && !exhausted) {
            return Err(self.question(dip.value, false));
        }
        let needed = settings.confirmations;
        if let Some(found) = self.at_the_bounds() {
            let top = self.levels.iter().find(|level| Some(level.value) == found.value());
            return match top.filter(|level| level.whole < needed && !exhausted) {
                Some(level) => Err(self.question(level.value, true)),
                None => Ok(self.answer(found)),
            };
        }
        if self.is_out_of_reach() || (exhausted && self.is_unbounded()) {
            return Ok(self.answer(Found::Undecided));
        }
        match self.best() {
            Some(best) if exhausted || (self.is_enough(best.value) && best.whole >= needed) => {
                match self.contested(best.value).filter(|_| !exhausted) {
                    Some(load) => Err(self.question(load, true)),
                    None => Ok(self.answer(Found::Met(best.value))),
                }
            }
            _ if exhausted => Ok(self.answer(Found::Undecided)),
            Some(best) if self.is_enough(best.value) => Err(self.question(best.value, true)),
            _ => Err(self.next_question()),
        }
    }

    /// Replaces a repeat of the lowest load by the next load, if the lowest passed and no load up to the next was tried.
    fn raise(&self, question: Question) -> Question {
        let lower = self.search.lowest();
        let next = self.search.settings.vary.floor(self.tolerance_end(lower));
        let has_passed = |level: &PooledLevel| level.value == lower && level.margin <= 0.0;
        let mut tried = self.search.probes.iter().map(|probe| probe.question.value);
        let is_repeat = question.value == lower && self.levels.iter().any(has_passed);
        match is_repeat && !tried.any(|value| value > lower && value <= next) {
            true => self.question(next, false),
            false => question,
        }
    }

    /// Lowers the load of a question after every [`REPEATS`] disturbed runs in a row, each time farther, unless the lowered load or a
    /// higher one has passed.
    fn lower(&self, question: Question) -> Question {
        let last = self.asked().rev();
        let in_a_row = last.take_while(|probe| self.is_spoilt(probe)).count();
        let lower = question.value / f64::powi(2.0, (in_a_row / REPEATS) as i32);
        let is_known = self.passed().next().is_some_and(|held| held.value >= lower);
        match in_a_row > 0 && in_a_row.is_multiple_of(REPEATS) && !is_known {
            true => self.question(lower, false),
            false => question,
        }
    }

    /// Returns true if `value` was measured as failing, and the limit lies below it beyond reasonable doubt.
    fn is_limit_below(&self, value: f64) -> bool {
        let misses = self
            .levels
            .iter()
            .any(|level| level.value == value && level.margin > 0.0);
        misses && self.boundary.chance_below(value) >= 1.0 - RISK_BELOW
    }

    /// Returns true if the limit lies below the loads that end in time.
    fn is_out_of_reach(&self) -> bool {
        let lowest = self.search.lowest();
        lowest > self.search.settings.lower && self.is_limit_below(lowest)
    }

    /// Returns the answer if the limit lies outside the range of loads.
    fn at_the_bounds(&self) -> Option<Found> {
        let Settings { lower, upper, .. } = self.search.settings;
        if self.is_limit_below(lower) {
            return Some(Found::None);
        }
        let measured = |value: f64| self.levels.iter().find(|level| level.value == value);
        let passes = measured(upper).is_some_and(|level| level.margin <= 0.0);
        (passes && self.dip.is_none() && self.boundary.chance_below(upper) <= RISK_BELOW)
            .then_some(Found::Beyond(upper))
    }

    /// Returns the loads below the dip that were measured as passing, highest first.
    fn passed(&self) -> impl Iterator<Item = &PooledLevel> {
        let below_the_dip = |level: &&PooledLevel| self.dip.is_none_or(|dip| level.value < dip.value);
        let passed = self.levels.iter().rev().filter(|level| level.margin <= 0.0);
        passed.filter(below_the_dip)
    }

    /// Returns the highest of the passed loads that lies below the boundary beyond reasonable doubt, or has passed twice.
    fn best(&self) -> Option<&PooledLevel> {
        let is_safe = |level: &&PooledLevel| self.boundary.chance_below(level.value) <= RISK_BELOW;
        self.passed()
            .find(|level| is_safe(level) || self.has_passed_twice(level))
    }

    /// Returns true if a low load passed in at least two runs and missed in none, and no lower load missed.
    fn has_passed_twice(&self, level: &PooledLevel) -> bool {
        let is_low = self.search.settings.vary == Vary::MaxConcurrency && level.value < FEW;
        let (runs, missing) = self.runs_missing(level.value);
        let mut below = self.levels.iter().take_while(|lower| lower.value < level.value);
        is_low && runs >= 2 && missing == 0 && below.all(|lower| lower.margin <= 0.0)
    }

    /// Returns true if the boundary is within the tolerance above `value`, or as near as the remaining runs are likely to bring it.
    fn is_enough(&self, value: f64) -> bool {
        let is_near = self.upper_end() < self.tolerance_end(value);
        !self.is_unbounded() && (is_near || self.runs_so_far() as f64 >= self.patience())
    }

    /// Returns true if every run that missed the target was disturbed, or if the highest runs were bursts, so that nothing bounds the limit
    /// from above.
    fn is_unbounded(&self) -> bool {
        self.spoilt().next().is_some() && self.levels.iter().all(|level| level.margin <= 0.0)
    }

    /// Number of runs after which noise, not lack of runs, keeps a target open.
    fn patience(&self) -> f64 {
        PATIENCE * self.search.settings.max_probes as f64
    }

    /// Returns the upper end of the boundary's interval.
    fn upper_end(&self) -> f64 {
        self.boundary.quantile(1.0 - RISK_ABOVE)
    }

    /// Returns the end of the tolerance of an answer of `value`: the answer is as near as requested to every boundary below this load.
    fn tolerance_end(&self, value: f64) -> f64 {
        let Settings { vary, tolerance, .. } = self.search.settings;
        let near = value * (1.0 + tolerance);
        match vary {
            // A limit between two whole numbers is the lower one.
            Vary::MaxConcurrency => near.floor() + 1.0,
            Vary::RequestRate => near,
        }
    }

    /// Returns true if measuring `value` could still change the decision.
    fn learns_at(&self, value: f64) -> bool {
        (RISK_BELOW..=1.0 - RISK_BELOW).contains(&self.boundary.chance_below(value))
    }

    fn question(&self, value: f64, confirm: bool) -> Question {
        let settings = &self.search.settings;
        let value = settings.vary.floor(value).clamp(self.search.lowest(), settings.upper);
        // A run with fewer requests than its concurrency would never reach it.
        let is_concurrency = settings.vary == Vary::MaxConcurrency;
        let reaching = if is_concurrency { value as u64 } else { 1 };
        let drawn = self
            .search
            .probes
            .iter()
            .map(|probe| probe.question.draw.saturating_add(1));
        // A pass at the highest load is the answer, and an answer's figures come from a whole run.
        let confirm = confirm || (value == settings.upper && settings.confirmations > 0);
        let question = Question {
            target: self.target.name.clone(),
            value,
            requests: settings.requests.at(value).max(reaching),
            confirm,
            // Earlier probes may have been left out.
            draw: drawn.fold(self.search.probes.len() as u32, u32::max),
        };
        // Only a whole run shows whether the server keeps up with a rate.
        let confirm = confirm || question.is_brief(settings.vary);
        Question { confirm, ..question }
    }
}
