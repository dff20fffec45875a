//! Watches a probe while it runs: counts the requests that ended or are already late, and cuts the run once its verdict is certain.
//!
//! Only criteria about single requests are judged, because the figures of a whole run, such as a mean or a throughput, are not known before
//! its end. If a server hangs or has died, all requests are late, although the load may be right. So failed requests do not count as late,
//! and a run without any answer does not fail before its end.

use super::Vary;
use super::criterion::{RequestLimit, worst_ratio};
use super::probe::{KEEPS_UP, Question};
use super::reading::{CLEAR, RequestLatencies};
use super::target::Target;
use super::verdict::{CriterionCounts, Verdict};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Smallest share of a run's requests that must be left for a cut to be worth the loss of the run's figures.
const WORTHWHILE: f64 = 0.25;
/// Longest time for which the generator may stand still without effect on a run's figures.
const AWAY: Duration = Duration::from_millis(50);
/// Like [`AWAY`], as a share of the run so far. The longer time counts.
const AWAY_SHARE: f64 = 0.02;

/// Judges a probe's requests for every target that is still open.
#[derive(Debug, Clone)]
pub struct Watch {
    question: Question,
    vary: Vary,
    criteria: Vec<CriterionTally>,
    /// Positions of each target's criteria; `None` for a criterion that is open until the end of the run.
    targets: Vec<Vec<Option<usize>>>,
    /// Number of requests that ended.
    ended: u64,
    /// Number of requests in flight.
    in_flight: u64,
    /// Number of ended requests that were sent after the first had ended.
    settled: u64,
    /// Number of failed requests among those that ended, and among the settled ones.
    failed: [u64; 2],
    /// True once a request has got an output token.
    is_answered: bool,
    /// End of the first request.
    first_end: Option<Duration>,
    /// Maximum number of requests that were in flight at once.
    reached: u64,
    /// Requests in flight, with the least latencies that they can have.
    underway: Vec<RequestLatencies>,
    /// Time for which the generator stood still.
    away: Duration,
    /// Time at which the last request ended.
    last_end: Duration,
}

/// One criterion, with its counts of ended requests.
#[derive(Debug, Clone)]
struct CriterionTally {
    text: String,
    /// Numbers of requests that must keep the limits: below the first the criterion fails, from the second on it certainly holds.
    needed: (u64, u64),
    limits: Vec<RequestLimit>,
    /// Number of requests clearly within the limits: of all that ended, and of the settled ones.
    within: [u64; 2],
    /// Number of requests not clearly beyond the limits: of all that ended, and of the settled ones.
    not_beyond: [u64; 2],
}

/// Reason why a probe can be ended early.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// The verdict: [`Verdict::Fail`] if at least one open target is missed.
    pub verdict: Verdict,
    /// A sentence with the counts that decided.
    pub why: String,
    /// The criteria whose results are certain, by their texts; true if met. The run shows nothing about other criteria, because the
    /// requests that end first are not typical.
    pub certain: BTreeMap<String, bool>,
}

impl Watch {
    /// Returns a watch over the run that answers `question`, for the `open` targets.
    pub(super) fn over<'a>(question: &Question, vary: Vary, open: impl Iterator<Item = &'a Target>) -> Watch {
        let mut criteria: Vec<CriterionTally> = Vec::new();
        let targets = open.map(|target| {
            let positions = target.criteria.iter().map(|criterion| {
                // The number of requests that a class will have is not known.
                let (_, limits) = criterion.per_request().filter(|_| criterion.class.is_none())?;
                criteria.push(CriterionTally {
                    text: criterion.to_string(),
                    needed: criterion.needed(question.requests)?,
                    limits,
                    within: [0; 2],
                    not_beyond: [0; 2],
                });
                Some(criteria.len() - 1)
            });
            positions.collect()
        });
        Watch {
            question: question.clone(),
            vary,
            targets: targets.collect(),
            criteria,
            ended: 0,
            in_flight: 0,
            settled: 0,
            failed: [0; 2],
            is_answered: false,
            first_end: None,
            reached: 0,
            underway: Vec::new(),
            away: Duration::ZERO,
            last_end: Duration::ZERO,
        }
    }

    /// Counts a request that ended while `in_flight` others continued. `span` reaches from its sending to its end; the spans of a run are
    /// measured from one moment. Returns the reason to cut the run, if there is one.
    pub fn note_end(&mut self, request: RequestLatencies, span: Range<Duration>, in_flight: u64) -> Option<Cut> {
        // The ended request was probably one of these. The next call of `note_underway` counts the requests in flight again.
        self.underway.clear();
        let is_settled = span.start >= *self.first_end.get_or_insert(span.end);
        for criterion in &mut self.criteria {
            let ratio = worst_ratio(&criterion.limits, &request);
            for (count, limit) in [
                (&mut criterion.within, CLEAR.recip()),
                (&mut criterion.not_beyond, CLEAR),
            ] {
                count[0] += u64::from(ratio <= limit);
                count[1] += u64::from(ratio <= limit && is_settled);
            }
        }
        self.last_end = self.last_end.max(span.end);
        self.ended += 1;
        let has_failed = request.e2el_ms.is_infinite();
        self.failed[0] += u64::from(has_failed);
        self.failed[1] += u64::from(has_failed && is_settled);
        self.is_answered |= !has_failed;
        self.settled += u64::from(is_settled);
        self.in_flight = in_flight;
        self.reached = self.reached.max(in_flight + 1);
        self.judge()
    }

    /// Replaces the requests in flight, each with the least latencies that it can have. Returns the reason to cut the run, if there is one.
    pub fn note_underway(&mut self, underway: impl Iterator<Item = RequestLatencies>) -> Option<Cut> {
        self.underway = underway.collect();
        self.is_answered |= self.underway.iter().any(|request| request.ttft_ms < request.e2el_ms);
        self.in_flight = self.underway.len() as u64;
        self.reached = self.reached.max(self.in_flight);
        self.judge()
    }

    /// Sets the time for which the generator has stood still so far. Its delays say nothing of the server, so a run that they disturb is
    /// not cut.
    pub fn note_away(&mut self, total: Duration) {
        self.away = total;
    }

    fn is_disturbed(&self) -> bool {
        self.away > self.last_end.mul_f64(AWAY_SHARE).max(AWAY)
    }

    /// Returns false while so few requests of a rate have ended that only the whole run shows whether the server sustains it.
    fn keeps_up(&self) -> bool {
        let sent = (self.ended + self.in_flight) as f64;
        self.vary != Vary::RequestRate || self.ended as f64 >= KEEPS_UP * sent
    }

    fn judge(&self) -> Option<Cut> {
        let left = self.question.requests.saturating_sub(self.ended);
        if (left as f64) < WORTHWHILE * self.question.requests as f64 || self.is_disturbed() {
            return None;
        }
        let verdicts: Vec<Option<(Verdict, String)>> =
            self.criteria.iter().map(|one| self.judge_criterion(one)).collect();
        let of_target = |criteria: &Vec<Option<usize>>| {
            let known = || criteria.iter().map(|position| verdicts[(*position)?].as_ref());
            let failure = known().flatten().find(|(verdict, _)| *verdict == Verdict::Fail);
            failure.or_else(|| known().collect::<Option<Vec<_>>>()?.into_iter().next())
        };
        let targets = self.targets.iter().map(of_target).collect::<Option<Vec<_>>>()?;
        let failure = targets.iter().find(|(verdict, _)| *verdict == Verdict::Fail);
        // A run that confirms an answer is measured whole, because its figures are the basis of the answer.
        let pass = || targets.first().filter(|_| !self.question.confirm);
        let (verdict, why) = failure.or_else(pass)?;
        let certain = self.criteria.iter().zip(&verdicts).filter_map(|(watched, verdict)| {
            let (verdict, _) = verdict.as_ref()?;
            Some((watched.text.clone(), *verdict == Verdict::Pass))
        });
        Some(Cut {
            verdict: *verdict,
            why: why.clone(),
            certain: certain.collect(),
        })
    }

    /// Returns the verdict about a criterion if it is certain, with the reason.
    fn judge_criterion(&self, watched: &CriterionTally) -> Option<(Verdict, String)> {
        let late = |request: &&RequestLatencies| worst_ratio(&watched.limits, request) > CLEAR;
        let late = self.underway.iter().filter(late).count() as u64;
        let counts = |[attained, settled_attained]: [u64; 2], ended: u64, settled: u64| CriterionCounts {
            planned: self.question.requests,
            reached: self.reached,
            attained,
            missed: ended - attained,
            settled,
            settled_attained,
        };
        let [failed, settled_failed] = self.failed;
        let beyond = counts(
            watched.not_beyond,
            self.ended - failed + late,
            self.settled - settled_failed,
        );
        let within = counts(watched.within, self.ended, self.settled);
        let (least, enough) = watched.needed;
        let failure = self.is_answered.then(|| beyond.failure(least)).flatten();
        let success = within.success(enough).filter(|_| self.keeps_up());
        let (verdict, counts, (missing, by), reason) = match (failure, success) {
            (Some(reason), _) => (Verdict::Fail, beyond, ("missed", "by over 25 %"), reason),
            (None, reason) => (Verdict::Pass, within, ("did not keep", "with 25 % to spare"), reason?),
        };
        let (planned, done, missed) = (counts.planned, counts.attained + counts.missed, counts.missed);
        let limits: Vec<String> = watched.limits.iter().map(RequestLimit::in_words).collect();
        let limits = limits.join(" and ");
        let why = format!("stopped after {done} of {planned} requests: {missed} {missing} {limits} {by}, {reason}");
        Some((verdict, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Criterion;

    fn watch(bounds: &[(&str, &str)], requests: u64, confirm: bool) -> Watch {
        watch_of(Vary::MaxConcurrency, bounds, requests, confirm)
    }

    fn watch_of(vary: Vary, bounds: &[(&str, &str)], requests: u64, confirm: bool) -> Watch {
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
        Watch::over(&question, vary, [target].iter())
    }

    fn request(ttft_ms: f64) -> RequestLatencies {
        RequestLatencies {
            ttft_ms,
            tpot_ms: 1.0,
            e2el_ms: ttft_ms,
            ..RequestLatencies::default()
        }
    }

    /// The span of one second from `start`.
    fn span(start: u64) -> Range<Duration> {
        Duration::from_secs(start)..Duration::from_secs(start + 1)
    }

    /// Returns the decision after `count` requests in waves of eight, the first of which lasts a second.
    fn after(watch: &mut Watch, count: usize, ttft_ms: f64) -> Option<Verdict> {
        let cuts = (0..count).map(|i| watch.note_end(request(ttft_ms), span(i as u64 / 8), 7));
        let cuts: Vec<Option<Cut>> = cuts.collect();
        cuts.into_iter().flatten().next().map(|cut| cut.verdict)
    }

    #[test]
    fn requests_clearly_beyond_the_limit_are_lost_before_they_end() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 200, false);
        assert_eq!(watch.note_end(request(100.0), span(0), 16), None);
        let waiting = |ms: f64| vec![request(ms); 16];
        assert_eq!(watch.note_underway(waiting(620.0).into_iter()), None);
        let cut = watch.note_underway(waiting(630.0).into_iter()).expect("certain");
        assert_eq!(cut.verdict, Verdict::Fail);
        assert_eq!(
            cut.why,
            "stopped after 17 of 200 requests: 16 missed TTFT <= 500 ms by over 25 %, more than the rest could make up for"
        );
        assert!(!cut.certain["p99_ttft_ms<=500"]);
    }

    #[test]
    fn a_server_that_hangs_or_has_died_is_not_taken_for_a_slow_one() {
        let chat = [("p99_ttft_ms", "<=500")];
        let mut hung = watch(&chat, 200, false);
        assert_eq!(hung.note_underway(vec![request(9000.0); 50].into_iter()), None);
        let first_token = RequestLatencies {
            e2el_ms: 9100.0,
            ..request(9000.0)
        };
        assert!(hung.note_underway(vec![first_token; 50].into_iter()).is_some());

        let mut died = watch(&chat, 200, false);
        assert_eq!(died.note_end(request(100.0), span(0), 50), None);
        let failed = (0..100).map(|_| died.note_end(RequestLatencies::FAILED, span(1), 50));
        assert_eq!(failed.flatten().next(), None);
    }

    #[test]
    fn a_late_request_that_ends_is_counted_once() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 200, false);
        assert_eq!(watch.note_underway(vec![request(1400.0); 2].into_iter()), None);
        assert_eq!(watch.note_end(request(1500.0), span(0), 1), None);
        assert_eq!(watch.note_end(request(1500.0), span(0), 0), None);
    }

    #[test]
    fn only_a_run_that_is_clear_of_its_limit_is_cut() {
        let chat = [("p99_ttft_ms", "<=500")];
        for (ttft_ms, verdict) in [
            (390.0, Some(Verdict::Pass)),
            (410.0, None),
            (600.0, None),
            (640.0, Some(Verdict::Fail)),
        ] {
            assert_eq!(
                after(&mut watch(&chat, 5000, false), 3000, ttft_ms),
                verdict,
                "{ttft_ms}"
            );
        }
    }

    #[test]
    fn a_run_that_is_nearly_done_is_finished() {
        let mut watch = watch(&[("p99_ttft_ms", "<=500")], 100, false);
        assert_eq!(after(&mut watch, 76, 100.0), None);
        assert_eq!(after(&mut watch, 24, 5000.0), None);
    }

    #[test]
    fn a_run_during_which_the_generator_stood_still_is_not_cut() {
        let cut_after = |away_ms| {
            let mut watch = watch(&[("p99_ttft_ms", "<=500")], 5000, false);
            watch.note_away(Duration::from_millis(away_ms));
            after(&mut watch, 3000, 640.0)
        };
        assert_eq!((cut_after(45), cut_after(20_000)), (Some(Verdict::Fail), None));
    }

    #[test]
    fn a_pass_stops_a_probe_but_no_confirmation() {
        let chat = [("p99_ttft_ms", "<=500")];
        assert_eq!(after(&mut watch(&chat, 5000, false), 1000, 100.0), Some(Verdict::Pass));
        assert_eq!(after(&mut watch(&chat, 5000, true), 1000, 100.0), None);
    }

    #[test]
    fn a_rate_passes_early_only_if_the_server_keeps_up() {
        let cut_with = |in_flight| {
            let mut watch = watch_of(Vary::RequestRate, &[("p99_ttft_ms", "<=500")], 5000, false);
            let mut cuts = (0..1000).map(|at| watch.note_end(request(100.0), span(at), in_flight));
            cuts.any(|cut| cut.is_some())
        };
        assert_eq!((cut_with(7), cut_with(300)), (true, false));
    }

    #[test]
    fn a_bound_on_the_whole_run_lets_only_failures_stop_it() {
        let bounds = [("p99_ttft_ms", "<=500"), ("request_goodput", ">=5")];
        assert_eq!(after(&mut watch(&bounds, 5000, false), 1000, 100.0), None);
        assert_eq!(after(&mut watch(&bounds, 200, false), 5, 640.0), Some(Verdict::Fail));
    }
}
