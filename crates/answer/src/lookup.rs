//! Accessors of an answer that several of its readers share.

use super::asked::Goal;
use super::document::{Answer, Entrant, Estimate, QuestionAnswer};
use std::collections::BTreeSet;

impl Answer {
    /// Returns the name of a config, or its id if it has no name.
    pub fn name_of<'a>(&'a self, config: &'a str) -> &'a str {
        let found = self.configs.iter().find(|other| other.id == config);
        found
            .map(|found| &*found.name)
            .filter(|name| !name.is_empty())
            .unwrap_or(config)
    }

    /// Returns the figure by which a config competes for the first question. If several workloads ask that question, returns the smallest
    /// of the config's shares of their best figures. `None` if the config does not meet the targets in all of them.
    pub fn first_figure(&self, config: &str) -> Option<f64> {
        let figures = self.of_each_workload().into_iter().map(|answered| {
            let entrants = answered.entrants.iter().filter(|entrant| entrant.meets);
            let figure = entrants.clone().find(|entrant| entrant.config == config)?.value.value;
            let best = answered.better.best(entrants.map(|entrant| entrant.value.value))?;
            Some((figure, answered.better.share(figure, best)))
        });
        let figures: Vec<(f64, f64)> = figures.collect::<Option<_>>()?;
        match figures.as_slice() {
            [(figure, _)] => Some(*figure),
            all => all.iter().map(|(_, share)| *share).reduce(f64::min),
        }
    }

    /// Returns the figure by which a config competes for the first question, with its interval. `None` if it does not compete, or several
    /// workloads ask that question.
    pub fn first_estimate(&self, config: &str) -> Option<Estimate> {
        let &[first] = self.of_each_workload().as_slice() else {
            return None;
        };
        let found = first.entrants.iter().find(|entrant| entrant.config == config);
        found.map(|entrant| entrant.value)
    }

    /// Returns the answers to the first question, one for each workload that asks it.
    fn of_each_workload(&self) -> Vec<&QuestionAnswer> {
        let first = self.questions.first();
        let is_first = |answered: &&QuestionAnswer| first.is_some_and(|first| answered.question == first.question);
        self.questions.iter().filter(is_first).collect()
    }

    /// Returns the answers whose winners are recommended: those for the highest load, else the first one about each workload.
    pub fn leading(&self) -> Vec<&QuestionAnswer> {
        leading(&self.questions)
            .into_iter()
            .map(|at| &self.questions[at])
            .collect()
    }
}

/// Returns the indices of the questions whose winners are recommended.
pub(crate) fn leading(questions: &[QuestionAnswer]) -> Vec<usize> {
    let has_load = questions.iter().any(QuestionAnswer::is_load);
    let mut workloads: BTreeSet<&str> = BTreeSet::new();
    let is_leading = |at: &usize| match has_load {
        true => questions[*at].is_load(),
        false => workloads.insert(&questions[*at].workload),
    };
    (0..questions.len()).filter(is_leading).collect()
}

impl QuestionAnswer {
    /// Returns true if the question asks for the highest load.
    pub fn is_load(&self) -> bool {
        matches!(self.goal, Goal::Load { .. })
    }

    /// Returns the question with its workload: `Lowest latency, 512 in, 16 out`.
    pub fn title(&self) -> String {
        match self.workload.as_str() {
            "" => self.question.clone(),
            workload => format!("{}, {workload}", self.question),
        }
    }

    /// Returns the ids of the winner and its ties, without ties whose search ended undecided, because another start would not decide it.
    /// If only the winner is returned, nothing more is measured.
    pub fn finalists(&self) -> impl Iterator<Item = &str> {
        let winner = self.winner.iter().map(|winner| &*winner.config);
        let ties = self.ties.iter().filter(|tie| self.undecided(tie).is_none());
        winner.chain(ties.map(|tie| &**tie))
    }

    /// Returns the entrant of a config if it competes although its search ended undecided.
    pub fn undecided(&self, config: &str) -> Option<&Entrant> {
        let is_undecided = |entrant: &&Entrant| entrant.point.is_none() && !entrant.meets;
        self.entrants
            .iter()
            .find(|entrant| entrant.config == config)
            .filter(is_undecided)
    }
}
