//! Parts of an answer that several readers look for.

use super::asked::Goal;
use super::document::{Answer, Answered, Estimate};
use std::collections::BTreeSet;

impl Answer {
    /// The name of a config; its id without one.
    pub fn name_of<'a>(&'a self, config: &'a str) -> &'a str {
        let own = self.configs.iter().find(|own| own.id == config);
        own.map(|own| &*own.name)
            .filter(|name| !name.is_empty())
            .unwrap_or(config)
    }

    /// The estimated figure of a config that meets what the first question asks; over several workloads its smallest share of each one's
    /// best. None if it does not compete for all of them.
    pub fn first_figure(&self, config: &str) -> Option<f64> {
        let figures = self.of_each_workload().into_iter().map(|answered| {
            let entrants = answered.entrants.iter().filter(|own| own.meets);
            let own = entrants.clone().find(|own| own.config == config)?.value.value;
            let best = answered.better.best(entrants.map(|own| own.value.value))?;
            Some((own, answered.better.share(own, best)))
        });
        let figures: Vec<(f64, f64)> = figures.collect::<Option<_>>()?;
        match figures.as_slice() {
            [(figure, _)] => Some(*figure),
            all => all.iter().map(|(_, share)| *share).reduce(f64::min),
        }
    }

    /// The figure of a config that competes for the first question, with its interval; none where several workloads ask it.
    pub fn first_estimate(&self, config: &str) -> Option<Estimate> {
        let &[first] = self.of_each_workload().as_slice() else {
            return None;
        };
        let own = first.entrants.iter().find(|own| own.config == config);
        own.map(|own| own.value)
    }

    /// The first question, about each workload.
    fn of_each_workload(&self) -> Vec<&Answered> {
        let first = self.questions.first();
        let same = |own: &&Answered| first.is_some_and(|first| own.question == first.question);
        self.questions.iter().filter(same).collect()
    }

    /// The questions whose winners are recommended: those for the highest load, else the first one about each workload.
    pub fn leading(&self) -> Vec<&Answered> {
        leading(&self.questions)
            .into_iter()
            .map(|at| &self.questions[at])
            .collect()
    }
}

/// The places of the questions whose winners are recommended.
pub(crate) fn leading(questions: &[Answered]) -> Vec<usize> {
    let all = || questions.iter().enumerate();
    let mut workloads: BTreeSet<&str> = BTreeSet::new();
    match questions.iter().any(Answered::is_load) {
        true => all().filter(|(_, own)| own.is_load()).map(|(at, _)| at).collect(),
        false => all()
            .filter(|(_, own)| workloads.insert(&own.workload))
            .map(|(at, _)| at)
            .collect(),
    }
}

impl Answered {
    /// True if it asks for the highest load.
    pub fn is_load(&self) -> bool {
        matches!(self.goal, Goal::Load { .. })
    }

    /// The question with its workload: `Lowest latency, 512 in, 16 out`.
    pub fn title(&self) -> String {
        match self.workload.as_str() {
            "" => self.question.clone(),
            workload => format!("{}, {workload}", self.question),
        }
    }

    /// Ids of the configs of which one is the best with 95 %: the winner and its ties. Nothing more is to be measured if it is one.
    pub fn finalists(&self) -> impl Iterator<Item = &str> {
        let winner = self.winner.iter().map(|winner| &*winner.config);
        winner.chain(self.ties.iter().map(|tie| &**tie))
    }
}
