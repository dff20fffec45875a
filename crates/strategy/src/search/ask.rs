//! The search itself: which load to measure next, and when a target is answered.
//!
//! One search per server config. Its state is the list of probes told and nothing else: `ask` computes the next
//! question from that list, so replaying a journal's probes leads to the same question.

mod answer;

pub use answer::BRIEF_S;

use super::Vary;
use super::boundary::{Boundary, Observation};
use super::probe::{Probe, Question};
use super::rival::Rival;
use super::seed::{Requests, Seed};
use super::target::{Answer, Found, Level, Target, levels};
use super::verdict::Verdict;
use super::watch::Watch;
use std::fmt;

/// What to search for, and how hard.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The load that is varied.
    pub vary: Vary,
    /// The targets, answered in this order.
    pub targets: Vec<Target>,
    /// The lowest load to try.
    pub lower: f64,
    /// The highest load to try.
    pub upper: f64,
    /// How far the answer may be below the boundary, as a ratio: 0.05 for 5 %.
    pub tolerance: f64,
    /// At most this many runs are asked for by each target.
    pub max_probes: usize,
    /// Whole runs at the answer that were asked for because it was expected to be the answer.
    pub confirmations: usize,
    /// Requests of a run.
    pub requests: Requests,
    /// Whether a server config is left as soon as another is known to hold more than it can.
    pub skip_beaten: bool,
}

impl Settings {
    /// Settings with the usual bounds, tolerance and numbers of runs.
    pub fn new(vary: Vary, targets: Vec<Target>) -> Settings {
        Settings {
            vary,
            targets,
            lower: if vary == Vary::MaxConcurrency { 1.0 } else { 0.01 },
            upper: 8192.0,
            tolerance: 0.05,
            max_probes: 16,
            confirmations: 1,
            requests: Requests {
                per_value: 10.0,
                min: 200,
                max: 2000,
            },
            skip_beaten: false,
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            vary,
            lower,
            upper,
            tolerance,
            max_probes,
            ..
        } = self;
        write!(f, "highest {} from {lower} to {upper} that meets ", vary.name())?;
        let targets = self.targets.iter().map(|target| {
            let criteria: Vec<String> = target.criteria.iter().map(ToString::to_string).collect();
            format!("{} ({})", target.name, criteria.join(", "))
        });
        f.write_str(&targets.collect::<Vec<_>>().join("; "))?;
        let percent = tolerance * 100.0;
        write!(
            f,
            ", to {percent} %, at most {max_probes} runs asked for by each target"
        )?;
        match self.skip_beaten {
            true => f.write_str(", unless another server is known to hold more"),
            false => Ok(()),
        }
    }
}

/// What a search wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Run this and tell what it measured.
    Probe(Question),
    /// Nothing more: the answers, one a target, in the settings' order.
    Done(Vec<Answer>),
}

/// The risk that an answer lies above the boundary.
pub const RISK: f64 = 0.006;
/// The risk at which the load for a confirmation is chosen: if it passes, its own risk falls below [`RISK`].
const CANDIDATE_RISK: f64 = 0.025;
/// Where in the distribution of the boundary to measure while it is still wide.
const AIM: f64 = 0.4;
/// Runs after which noise, not ignorance, keeps a target open. Each further run widens the tolerance by
/// [`IMPATIENCE`] of itself, because halving an interval by repeats would take four times the runs.
const PATIENT_RUNS: usize = 5;
const IMPATIENCE: f64 = 0.4;
/// The largest step beyond what was measured: a curve's knee is not seen from far below.
const LARGEST_STEP: f64 = 4.0;

/// How far below a load that failed the next one is at least, as a part of the tolerance.
const SMALLEST_STEP: f64 = 1.0 / 3.0;

/// A search for the highest load of one server config that meets each target.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    seed: Seed,
    /// Whom the server must beat; none if it is searched in any case.
    rivals: Vec<Rival>,
    probes: Vec<Probe>,
    /// For each target, its answer or the question that is needed for it: computed from the probes alone.
    decisions: Vec<Result<Answer, Question>>,
}

impl Search {
    /// A search that has measured nothing and starts at `seed`.
    pub fn new(mut settings: Settings, seed: Seed) -> Search {
        settings.lower = settings.vary.floor(settings.lower.max(1e-6));
        settings.upper = settings.vary.floor(settings.upper.max(settings.lower));
        let mut search = Search {
            settings,
            seed,
            rivals: Vec::new(),
            probes: Vec::new(),
            decisions: Vec::new(),
        };
        search.decide();
        search
    }

    /// The same search, to be ended for a target once its rival is known to hold more than the server can.
    pub fn against(mut self, rivals: &[Rival]) -> Search {
        self.rivals = rivals.to_vec();
        self.decide();
        self
    }

    /// The next run, or the answers.
    pub fn ask(&self) -> Next {
        match self
            .decisions
            .iter()
            .cloned()
            .collect::<Result<Vec<Answer>, Question>>()
        {
            Ok(answers) => Next::Done(answers),
            Err(question) => Next::Probe(question),
        }
    }

    /// Takes in what a run measured.
    pub fn tell(&mut self, probe: &Probe) {
        self.probes.push(probe.clone());
        self.decide();
    }

    /// The probes told so far.
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// A watch over the run that answers a question: it can stop once its verdict is certain about every target that is still
    /// open and can learn from this load.
    pub fn watch(&self, question: &Question) -> Watch {
        let decided = self.settings.targets.iter().zip(&self.decisions);
        let open = decided
            .filter(|(_, decision)| decision.is_err())
            .map(|(target, _)| target);
        let learns =
            |target: &&Target| target.name == question.target || View::of(self, target).learns_at(question.value);
        Watch::over(question, open.filter(learns))
    }

    fn decide(&mut self) {
        self.decisions = self
            .settings
            .targets
            .iter()
            .map(|target| View::of(self, target).decide_or_leave())
            .collect();
    }
}

/// All that the probes say about one target.
struct View<'a> {
    search: &'a Search,
    target: &'a Target,
    levels: Vec<Level>,
    boundary: Boundary,
    /// A load that clearly failed although a higher one clearly passed.
    dip: Option<Level>,
}

impl<'a> View<'a> {
    fn of(search: &'a Search, target: &'a Target) -> View<'a> {
        let mut observations = target.observations(&search.probes);
        let levels = levels(target, &search.probes, &observations);
        let highest_pass = levels.iter().rev().find(|level| level.verdict() == Verdict::Pass);
        let lowest_failure = levels.iter().find(|level| level.verdict() == Verdict::Fail);
        let dip = lowest_failure
            .filter(|failure| highest_pass.is_some_and(|pass| pass.value > failure.value))
            .copied();
        if let Some(dip) = dip {
            // Users at the dip's load would miss the target, so what happens above it is of no use to them.
            observations.retain(|observation: &Observation| observation.value <= dip.value);
        }
        let Settings { lower, upper, .. } = search.settings;
        let boundary = Boundary::infer(search.seed, lower, upper, &observations);
        View {
            search,
            target,
            levels,
            boundary,
            dip,
        }
    }

    /// The same as `decide`, but for a server that is beaten already no further question.
    fn decide_or_leave(&self) -> Result<Answer, Question> {
        self.decide().or_else(|question| match self.beaten() {
            Some((bound, why)) => Ok(self.beaten_answer(bound, why)),
            None => Err(question),
        })
    }

    /// What the server does not exceed, if a rival holds as much, and why.
    fn beaten(&self) -> Option<(f64, String)> {
        let Settings { vary, upper, .. } = self.search.settings;
        let mut rivals = self.search.rivals.iter();
        let rival = rivals.find(|rival| rival.target == self.target.name)?;
        // Before anything failed here, where the limit lies is but the guess that the search started from; and of a server
        // on which every run failed altogether, the load may not be to blame.
        let has_failed = self.levels.iter().any(|level| level.margin > 0.0);
        let has_figures = self.search.probes.iter().any(|probe| !probe.readings.is_empty());
        let measured = (has_failed && has_figures).then(|| vary.floor(self.interval(Found::Undecided).1));
        rival.beats(upper, measured)
    }

    /// The answer, or the question that is needed for it.
    fn decide(&self) -> Result<Answer, Question> {
        let settings = &self.search.settings;
        let exhausted = self.asked() >= settings.max_probes;
        if let Some(dip) = self.dip.filter(|dip| dip.runs < 2 && !exhausted) {
            return Err(self.question(dip.value, false));
        }
        if let Some(found) = self.at_the_bounds() {
            let unconfirmed = |level: &Level| level.confirmations < settings.confirmations && !exhausted;
            let top = self.levels.iter().find(|level| Some(level.value) == found.value());
            return match top.filter(|level| unconfirmed(level)) {
                Some(level) => Err(self.question(level.value, true)),
                None => Ok(self.answer(found)),
            };
        }
        let best = self.best();
        let Some(best) = best.filter(|best| exhausted || self.is_close(best.value)) else {
            return if exhausted {
                Ok(self.answer(Found::Undecided))
            } else {
                Err(self.next_question())
            };
        };
        if best.confirmations < settings.confirmations && !exhausted {
            return Err(self.question(best.value, true));
        }
        Ok(self.answer(Found::Met(best.value)))
    }

    fn at_the_bounds(&self) -> Option<Found> {
        let Settings { lower, upper, .. } = self.search.settings;
        let measured = |value: f64| self.levels.iter().find(|level| level.value == value);
        if measured(lower).is_some_and(|level| level.margin > 0.0) && self.boundary.chance_below(lower) >= 1.0 - RISK {
            return Some(Found::None);
        }
        let passes = measured(upper).is_some_and(|level| level.margin <= 0.0);
        (passes && self.dip.is_none() && self.boundary.chance_below(upper) <= RISK).then_some(Found::Beyond(upper))
    }

    /// The highest load measured as passing that lies below the boundary beyond reasonable doubt.
    fn best(&self) -> Option<&Level> {
        let below_the_dip = |level: &&Level| self.dip.is_none_or(|dip| level.value < dip.value);
        let safe = |level: &&Level| level.margin <= 0.0 && self.boundary.chance_below(level.value) <= RISK;
        self.levels.iter().rev().filter(below_the_dip).find(safe)
    }

    /// Whether the boundary is within the tolerance above `value`, or no other load lies between.
    fn is_close(&self, value: f64) -> bool {
        let likely = self.boundary.quantile(0.5);
        let patience = 1.0 + IMPATIENCE * self.asked().saturating_sub(PATIENT_RUNS) as f64;
        let tolerance = self.search.settings.tolerance * patience;
        likely <= value * (1.0 + tolerance) || likely < self.search.settings.vary.above(value)
    }

    /// Whether it is open yet if a load of `value` meets the target.
    fn learns_at(&self, value: f64) -> bool {
        (RISK..=1.0 - RISK).contains(&self.boundary.chance_below(value))
    }

    /// Runs asked for this target.
    fn asked(&self) -> usize {
        self.search
            .probes
            .iter()
            .filter(|probe| probe.question.target == self.target.name)
            .count()
    }

    fn next_question(&self) -> Question {
        let vary = self.search.settings.vary;
        let candidate = self.clear_of_failures(self.boundary.quantile(CANDIDATE_RISK));
        // To confirm what is known already would teach nothing: the boundary is what is still unknown.
        let best = self.best().map_or(0.0, |best| best.value);
        if self.is_close(candidate) && best < candidate {
            return self.question(candidate, true);
        }
        let aim = match self.clear_of_failures(self.boundary.quantile(AIM)) {
            aim if aim <= best => vary.above(best),
            aim => aim,
        };
        let values = || self.levels.iter().map(|level| level.value);
        let (lowest, highest) = (values().reduce(f64::min), values().reduce(f64::max));
        let farthest = highest.map_or(aim, |highest| aim.min(highest * LARGEST_STEP));
        self.question(
            lowest.map_or(farthest, |lowest| farthest.max(lowest / LARGEST_STEP)),
            false,
        )
    }

    /// A load no higher than `value` that is not so near to one that failed that it would most likely tell the same again.
    fn clear_of_failures(&self, value: f64) -> f64 {
        let Settings { vary, tolerance, .. } = self.search.settings;
        let step = 1.0 + tolerance * SMALLEST_STEP;
        let best = self.best().map_or(0.0, |best| best.value);
        let failures = self.levels.iter().rev().filter(|level| level.margin > 0.0);
        failures.fold(vary.floor(value), |value, failure| {
            let below = vary.floor(failure.value / step);
            let is_near = value < failure.value && below < value;
            // Between a pass and a failure that are as near as that, every load tells something.
            if is_near && below > best { below } else { value }
        })
    }

    fn question(&self, value: f64, confirm: bool) -> Question {
        let Settings {
            vary,
            lower,
            upper,
            requests,
            ..
        } = &self.search.settings;
        let value = vary.floor(value).clamp(*lower, *upper);
        // Fewer requests than the load would never bring it.
        let reaching = if *vary == Vary::MaxConcurrency { value as u64 } else { 1 };
        // A pass at the highest load is the answer, and the figures of an answer are those of a whole run.
        let confirm = confirm || (value == *upper && self.search.settings.confirmations > 0);
        Question {
            target: self.target.name.clone(),
            value,
            requests: requests.at(value).max(reaching),
            confirm,
            draw: self.search.probes.len() as u32,
        }
    }
}
