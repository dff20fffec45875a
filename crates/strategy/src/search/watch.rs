//! A probe while it runs: counts the requests that ended or are lost already, and says when the rest can change nothing.
//!
//! Criteria about single requests only: what a whole run amounts to (a mean, a throughput) is not known before its end.

use super::boundary::FAR;
use super::criterion::{RequestLimit, worst_ratio};
use super::probe::Question;
use super::reading::Request;
use super::target::Target;
use super::verdict::{Counts, Verdict};
use std::ops::Range;
use std::time::Duration;

/// Looks at a probe's requests on behalf of every target that is still open.
#[derive(Debug, Clone)]
pub struct Watch {
    question: Question,
    criteria: Vec<Watched>,
    /// For each target, its criteria by position; None for one that is open until the end.
    targets: Vec<Vec<Option<usize>>>,
    ended: Vec<Request>,
    /// For each of them, whether it belongs to the first wave: those sent before any had ended.
    first: Vec<bool>,
    /// How many do not.
    settled: u64,
    /// When the first request ended, and how many had been sent by then.
    first_end: Option<(Duration, u64)>,
    /// The most requests that were in flight at once.
    reached: u64,
    /// Requests in flight that are so late that no more need be known of them, as far as they came.
    lost: Vec<Request>,
}

/// One criterion and how many of the ended requests satisfied it.
#[derive(Debug, Clone)]
struct Watched {
    text: String,
    /// How many requests must attain: fewer fail, so many hold for certain.
    needed: (u64, u64),
    limits: Vec<RequestLimit>,
    attained: u64,
    /// How many of those after the first wave did.
    settled_attained: u64,
}

/// Why a probe need not go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// What it says about every open target.
    pub verdict: Verdict,
    /// The counts that decided, for people.
    pub why: String,
    /// Texts of the criteria whose verdict is certain: of all others the part of a run says nothing, because what ends
    /// first is not what is typical.
    pub certain: Vec<String>,
}

impl Watch {
    /// A watch over the run that answers `question`, for the `open` targets.
    pub(super) fn over<'a>(question: &Question, open: impl Iterator<Item = &'a Target>) -> Watch {
        let mut criteria: Vec<Watched> = Vec::new();
        let targets = open.map(|target| {
            let positions = target.criteria.iter().map(|criterion| {
                let (_, limits) = criterion.per_request()?;
                criteria.push(Watched {
                    text: criterion.to_string(),
                    needed: criterion.needed(question.requests)?,
                    limits,
                    attained: 0,
                    settled_attained: 0,
                });
                Some(criteria.len() - 1)
            });
            positions.collect()
        });
        Watch {
            question: question.clone(),
            targets: targets.collect(),
            criteria,
            ended: Vec::new(),
            first: Vec::new(),
            settled: 0,
            first_end: None,
            reached: 0,
            lost: Vec::new(),
        }
    }

    /// Takes note of a request that ended while `in_flight` others went on. `span` is from when it was sent to when it
    /// ended, from any one moment.
    pub fn note_end(&mut self, request: Request, span: Range<Duration>, in_flight: u64) -> Option<Cut> {
        if self.is_lost(&request) {
            // Most likely it was counted among the lost, and the next look counts these anew.
            self.lost.pop();
        }
        let (first_end, _) = *self.first_end.get_or_insert((span.end, in_flight + 1));
        let is_first = span.start < first_end;
        for criterion in &mut self.criteria {
            let attained = worst_ratio(&criterion.limits, &request) <= 1.0;
            criterion.attained += u64::from(attained);
            criterion.settled_attained += u64::from(attained && !is_first);
        }
        self.ended.push(request);
        self.first.push(is_first);
        self.settled += u64::from(!is_first);
        self.reached = self.reached.max(in_flight + 1);
        self.judge()
    }

    /// Takes note of the requests in flight, each with the latencies it has at least.
    pub fn note_underway(&mut self, underway: impl Iterator<Item = Request>) -> Option<Cut> {
        let underway: Vec<Request> = underway.collect();
        self.reached = self.reached.max(underway.len() as u64);
        self.lost = underway.into_iter().filter(|request| self.is_lost(request)).collect();
        self.judge()
    }

    /// The latencies that stand for the whole run: of every request of which enough is known. Once it was judged by what
    /// came after the first wave, only as many of that wave as its part in the whole run is.
    pub fn into_requests(self) -> Vec<Request> {
        let (planned, first) = (self.question.requests, self.first_end.map_or(0, |(_, first)| first));
        let keep = match self.settled >= self.reached && planned > self.ended.len() as u64 {
            true => self.settled * first / (planned - first),
            false => first,
        };
        let mut met = 0;
        let requests = self.ended.into_iter().zip(self.first).filter(|(_, is_first)| {
            met += u64::from(*is_first);
            // Every so many of them, so that those kept are spread over the wave.
            !is_first || met * keep / first > (met - 1) * keep / first
        });
        requests.map(|(request, _)| request).chain(self.lost).collect()
    }

    /// Whether a request misses a limit by so much that its exact figure says nothing more.
    fn is_lost(&self, request: &Request) -> bool {
        let mut ratios = self
            .criteria
            .iter()
            .map(|watched| worst_ratio(&watched.limits, request));
        ratios.any(|ratio| ratio >= FAR.exp())
    }

    fn judge(&self) -> Option<Cut> {
        let verdicts = self.targets.iter().map(|target| self.judge_target(target));
        let verdicts = verdicts.collect::<Option<Vec<Cut>>>()?;
        let (failures, passes): (Vec<Cut>, Vec<Cut>) =
            verdicts.into_iter().partition(|cut| cut.verdict == Verdict::Fail);
        let decisive = match failures.into_iter().next() {
            Some(failure) => failure,
            // A run that confirms an answer is measured whole: its figures are what the answer is believed for.
            None if self.question.confirm => return None,
            None => passes.into_iter().next()?,
        };
        let certain = self
            .criteria
            .iter()
            .filter(|watched| self.judge_criterion(watched).is_some());
        let certain = certain.map(|watched| watched.text.clone()).collect();
        Some(Cut { certain, ..decisive })
    }

    fn judge_target(&self, criteria: &[Option<usize>]) -> Option<Cut> {
        let verdicts = || {
            criteria
                .iter()
                .map(|position| self.judge_criterion(&self.criteria[(*position)?]))
        };
        let failure = verdicts().flatten().find(|cut| cut.verdict == Verdict::Fail);
        failure.or_else(|| verdicts().collect::<Option<Vec<Cut>>>()?.into_iter().next())
    }

    fn judge_criterion(&self, watched: &Watched) -> Option<Cut> {
        let late = |request: &&Request| worst_ratio(&watched.limits, request) > 1.0;
        let lost = self.lost.iter().filter(late).count() as u64;
        let missed = self.ended.len() as u64 - watched.attained + lost;
        let counts = Counts {
            planned: self.question.requests,
            reached: self.reached,
            attained: watched.attained,
            missed,
            settled: self.settled,
            settled_attained: watched.settled_attained,
        };
        let (verdict, reason) = counts.verdict(watched.needed)?;
        let (planned, done) = (self.question.requests, counts.attained + missed);
        let why = format!(
            "stopped after {done} of {planned} requests: {missed} missed {}, {reason}",
            watched.text
        );
        Some(Cut {
            verdict,
            why,
            certain: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Criterion;

    fn watch(bounds: &[(&str, &str)], requests: u64, confirm: bool) -> Watch {
        let criteria = bounds
            .iter()
            .map(|(key, bound)| Criterion::metric(key, bound).expect("valid in this test"));
        let target = Target {
            name: "chat".into(),
            criteria: criteria.collect(),
        };
        let question = Question {
            target: "chat".into(),
            value: 8.0,
            requests,
            confirm,
            draw: 0,
        };
        Watch::over(&question, [target].iter())
    }

    fn request(ttft_ms: f64) -> Request {
        Request {
            ttft_ms,
            tpot_ms: 1.0,
            e2el_ms: ttft_ms,
        }
    }

    /// From so many seconds to the next.
    fn span(start: u64) -> Range<Duration> {
        Duration::from_secs(start)..Duration::from_secs(start + 1)
    }

    /// Waves of eight, the first of which lasts a second.
    fn after(watch: &mut Watch, count: usize, ttft_ms: f64) -> Option<Verdict> {
        let cuts = (0..count)
            .map(|i| watch.note_end(request(ttft_ms), span(i as u64 / 8), 7))
            .collect::<Vec<_>>();
        cuts.into_iter().flatten().next().map(|cut| cut.verdict)
    }

    #[test]
    fn requests_far_beyond_the_limit_are_lost_before_they_end() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 200, false);
        let waiting = |ms: f64| vec![request(ms); 16];
        assert_eq!(watch.note_underway(waiting(1200.0).into_iter()), None);
        let cut = watch.note_underway(waiting(1400.0).into_iter()).expect("certain");
        assert_eq!(cut.verdict, Verdict::Fail);
        assert_eq!(
            cut.why,
            "stopped after 16 of 200 requests: 16 missed p99_ttft_ms<=500, more than the rest could make up for"
        );
        assert_eq!(watch.into_requests().len(), 16);
    }

    #[test]
    fn a_lost_request_that_ends_is_counted_once() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 200, false);
        assert_eq!(watch.note_underway(vec![request(1400.0); 2].into_iter()), None);
        assert_eq!(watch.note_end(request(1500.0), span(0), 1), None);
        assert_eq!(watch.note_end(request(1500.0), span(0), 0), None);
        assert_eq!(watch.into_requests().len(), 2);
    }

    #[test]
    fn the_first_wave_has_the_part_in_what_is_read_that_it_has_in_a_whole_run() {
        let mut watch = watch(&[("p90_ttft_ms", "<=500")], 1000, false);
        let waves = [(100, 450.0, 0), (300, 100.0, 1)];
        for (count, ttft_ms, start) in waves {
            // Nothing is cut here: what counts is what would be read.
            (0..count).for_each(|_| drop(watch.note_end(request(ttft_ms), span(start), 99)));
        }
        let read = watch.into_requests();
        let slow = read.iter().filter(|request| request.ttft_ms > 400.0).count();
        assert_eq!((slow, read.len() - slow), (33, 300));
    }

    #[test]
    fn a_pass_stops_a_probe_but_no_confirmation() {
        assert_eq!(
            after(&mut watch(&[("p99_ttft_ms", "<=500")], 5000, false), 1000, 100.0),
            Some(Verdict::Pass)
        );
        assert_eq!(
            after(&mut watch(&[("p99_ttft_ms", "<=500")], 5000, true), 1000, 100.0),
            None
        );
    }

    #[test]
    fn a_percentile_is_certain_only_where_the_reported_one_is() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 60, false);
        // One late request of sixty: the percentile lies between it and the next, which may still be in time.
        assert_eq!(after(&mut watch, 1, 505.0), None);
        assert_eq!(after(&mut watch, 1, 505.0), Some(Verdict::Fail));
    }

    #[test]
    fn a_bound_on_the_whole_run_lets_only_failures_stop_it() {
        let bounds = [("p99_ttft_ms", "<=500"), ("request_goodput", ">=5")];
        assert_eq!(after(&mut watch(&bounds, 5000, false), 1000, 100.0), None);
        assert_eq!(after(&mut watch(&bounds, 200, false), 3, 600.0), Some(Verdict::Fail));
    }
}
