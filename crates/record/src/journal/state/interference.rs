//! How much servers that run side by side slow each other down, as the runs tell that were repeated for it, and what that says against
//! runs beside others. A pure fold: what is found later counts for runs that were measured before.

use super::{Launch, Rank, State};
use crate::journal::line::Entry;
use crate::journal::sample::{Beside, Company, InterferenceSample};
use itertools::Itertools;
use vsweep_plan::validity::{Code, Doubt};
use vsweep_strategy::stats::{Interference, Slowdown};

/// Figures of a run cannot show what went on for a shorter share of its time.
const NOTICEABLE: f64 = 0.05;

/// What is known of servers beside others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Interferences {
    /// The slowdown from which on servers run apart, in percent; `None` if no session asked for it.
    pub threshold_percent: Option<f64>,
    /// Of runs beside runs of other servers.
    pub servers: Interference,
    /// Of runs beside starts of other servers.
    pub starts: Interference,
    /// The lines that decided about servers and about starts.
    decided_by: [Option<Rank>; 2],
}

impl Interferences {
    /// What speaks against a run beside others.
    pub fn against(&self, beside: Beside) -> Option<Doubt> {
        let kinds = [(beside.servers, &self.servers), (beside.starts, &self.starts)];
        let slows = |(share, found): &(f64, &Interference)| *share >= NOTICEABLE && found.slowdown == Slowdown::Slows;
        let kind = kinds.iter().position(slows)?;
        Some(Doubt::new(Code::ServersInterfere, self.sentences()[kind].clone()?))
    }

    /// What a line has decided, as a sentence with what follows from it.
    pub fn news(&self, entry: &Entry) -> Option<String> {
        let kind = self.decided_by.iter().position(|line| *line == Some(entry.rank))?;
        let (found, consequence) = [
            (&self.servers, "from now on they run one after the other"),
            (&self.starts, "from now on none starts while another one is measured"),
        ][kind];
        let follows = match found.slowdown {
            Slowdown::Slows => consequence,
            Slowdown::Harmless | Slowdown::Undecided => "servers go on side by side",
        };
        Some(format!("{}; {follows}", self.sentences()[kind].as_ref()?))
    }

    /// What is to be told of it in a report; nothing where servers did not run side by side.
    pub fn remarks(&self) -> Vec<String> {
        self.sentences().into_iter().flatten().collect()
    }

    /// What was found of runs beside runs of other servers, and of runs beside starts, each as a sentence without its full stop.
    fn sentences(&self) -> [Option<String>; 2] {
        [
            self.sentence("servers beside others are", "", &self.servers),
            self.sentence("servers are", " while another one starts", &self.starts),
        ]
    }

    fn sentence(&self, who: &str, when: &str, found: &Interference) -> Option<String> {
        let threshold = self.threshold_percent?;
        let (percent, low, high) = found.percent()?;
        let pairs = found.pairs;
        let known = format!(
            "{who} {percent:.1} % slower than alone{when} (99 % interval {low:.1} to {high:.1} %, {pairs} pairs of runs)"
        );
        Some(match found.slowdown {
            Slowdown::Harmless => format!("{known}: less than {threshold} %"),
            Slowdown::Slows => known,
            Slowdown::Undecided => format!("{known}: too few to tell whether that is less than {threshold} %"),
        })
    }
}

impl State {
    /// How much servers that run side by side slow each other down.
    pub fn interference(&self) -> &Interferences {
        &self.interference
    }

    /// Every run that was repeated to learn that, in their order.
    pub fn samples(&self) -> impl Iterator<Item = &InterferenceSample> {
        self.samples.iter().map(|(_, sample)| sample)
    }

    /// The runs that were repeated on a launch to learn that, in their order.
    pub fn samples_of(&self, launch: Launch) -> impl Iterator<Item = &InterferenceSample> {
        let of_launch = move |(rank, sample): &&(Rank, InterferenceSample)| launch_of(*rank, sample) == launch;
        self.samples.iter().filter(of_launch).map(|(_, sample)| sample)
    }

    pub(super) fn note_sample(&mut self, rank: Rank, sample: InterferenceSample) {
        let at = self.samples.partition_point(|(other, _)| *other < rank);
        self.samples.insert(at, (rank, sample));
        self.judge_interference();
    }

    pub(super) fn judge_interference(&mut self) {
        let threshold_percent = self.sessions.iter().rev().find_map(|session| session.interference);
        let judged = |company: Company| {
            let Some(percent) = threshold_percent else {
                return (Interference::default(), None);
            };
            let (lines, logs): (Vec<Rank>, Vec<f64>) = self.pairs(company).into_iter().unzip();
            let found = Interference::of(&logs, percent);
            let last = lines.get(found.pairs.wrapping_sub(1)).copied();
            (found, last.filter(|_| !found.is_open()))
        };
        let ((servers, by_servers), (starts, by_starts)) = (judged(Company::Servers), judged(Company::Start));
        let found = Interferences {
            threshold_percent,
            servers,
            starts,
            decided_by: [by_servers, by_starts],
        };
        if std::mem::replace(&mut self.interference, found) != found {
            self.hold_all();
            self.forget_chains();
        }
    }

    /// Logarithms of the latency beside others over that without them, of the same point on the same launch, in the order in which the
    /// pairs were complete, and the lines that completed them.
    fn pairs(&self, company: Company) -> Vec<(Rank, f64)> {
        let measured = self.samples.iter().filter_map(|(rank, sample)| {
            let latency = sample.latency_ms.filter(|latency| *latency > 0.0)?;
            let half = (*rank, sample.company()?, latency.ln());
            Some(((launch_of(*rank, sample), &sample.point), half))
        });
        // What a start adds is known also beside others, if they are known to do no harm.
        let is_base =
            |found: Company| found == Company::Nobody || (company == Company::Start && found == Company::Servers);
        let pair = |halves: Vec<(Rank, Company, f64)>| {
            let base = halves.iter().find(|(_, found, _)| is_base(*found))?;
            let beside = halves.iter().find(|(_, found, _)| *found == company)?;
            Some((base.0.max(beside.0), beside.2 - base.2))
        };
        let pairs = measured.into_group_map().into_values().filter_map(pair);
        pairs.sorted_by_key(|(rank, _)| *rank).collect()
    }
}

fn launch_of(rank: Rank, sample: &InterferenceSample) -> Launch {
    Launch {
        session: rank.line.journal,
        n: sample.launch,
    }
}
