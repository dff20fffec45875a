//! The table of criteria: the figures, the aims, and a verdict for each.

use super::comparisons::ComparisonResult;
use super::judge::{Coverage, Score, Trial};
use std::sync::atomic::{AtomicBool, Ordering};

/// Mean value of the winners of grids by the rules before this crate.
const VALUE_TODAY: f64 = 0.9182;

/// Prints the table of grids or searches.
pub fn print(trials: &[Trial]) {
    let own: Vec<Score> = trials.iter().filter_map(|trial| Some(trial.scores?.0)).collect();
    println!("{} experiments, {} with a winner and a best", trials.len(), own.len());
    println!("| criterion | found | aim | |\n| --- | --- | --- | --- |");
    let holds = share(&own, |score| score.holds);
    line(
        "winner or ties hold the best",
        percent(holds),
        "at least 95 %",
        holds >= 0.95,
    );
    calibration(&own);
    let confident: Vec<Score> = own.iter().copied().filter(|score| score.claim >= 0.9).collect();
    let sure = share(&confident, |score| score.value >= 0.98);
    let name = "winner that claims 90 % or more has 98 % of the best";
    line(name, percent(sure), "at least 98 %", sure >= 0.98);
    beside_oracle(trials);
    coverage(trials);
    if trials.iter().any(|trial| trial.stable.is_some()) {
        let value = mean(own.iter().map(|score| score.value));
        let aim = format!("at least {} (today.md)", percent(VALUE_TODAY));
        line("mean value of the winner", percent(value), &aim, value >= VALUE_TODAY);
        stability(trials);
    }
}

/// Prints the calibration: claimed probabilities, and how often the claims were true.
fn calibration(own: &[Score]) {
    for (low, high, aim) in [
        (0.9, 1.001, Some((-2.0, 2.0))),
        (0.5, 0.9, Some((-2.0, 5.0))),
        (0.0, 0.5, None),
    ] {
        let told = || own.iter().filter(|score| low <= score.claim && score.claim < high);
        let count = told().count();
        let claim = mean(told().map(|score| score.claim));
        let right = mean(told().map(|score| f64::from(u8::from(score.is_right))));
        let slack = 200.0 * (right * (1.0 - right) / count as f64).sqrt();
        let off = 100.0 * (right - claim);
        let (claimed, right) = (percent(claim), percent(right));
        let words = format!("claimed {claimed}, true {right}: {off:+.1} points (n {count}, 2 se {slack:.1})");
        let name = format!(
            "calibration, claims of {:.0} to {:.0} %",
            low * 100.0,
            high.min(1.0) * 100.0
        );
        match aim {
            // The narrow aim allows two standard errors in addition.
            Some((least, most)) if low >= 0.9 => {
                let aim = format!("{least:+} to {most:+} points + 2 se");
                line(&name, words, &aim, off.abs() <= most + slack);
            }
            Some((least, most)) => {
                let aim = format!("{least:+} to {most:+} points");
                line(&name, words, &aim, least <= off && off <= most);
            }
            None => println!("| {name} | {words} | printed | |"),
        }
    }
}

/// Prints the loss that comes from not knowing the noise.
fn beside_oracle(trials: &[Trial]) {
    let both = trials.iter().filter_map(|trial| trial.scores);
    let both = both.filter_map(|(own, oracle)| Some((own, oracle?)));
    let (own, oracle): (Vec<Score>, Vec<Score>) = both.unzip();
    if own.is_empty() {
        return;
    }
    let ties = |scores: &[Score]| mean(scores.iter().map(|score| score.ties as f64));
    let more = ties(&own) / ties(&oracle);
    let words = format!("{more:.2} ({:.2} of {:.2})", ties(&own), ties(&oracle));
    line("ties, times the oracle's", words, "at most 1.3", more <= 1.3);
    let square = |score: &Score| (score.claim - f64::from(u8::from(score.is_right))).powi(2);
    let brier = |scores: &[Score]| mean(scores.iter().map(square));
    let more = brier(&own) / brier(&oracle);
    let words = format!("{more:.3} ({:.4} of {:.4})", brier(&own), brier(&oracle));
    line("Brier score, times the oracle's", words, "at most 1.1", more <= 1.1);
    let is_most = |score: &Score| score.value >= 0.98;
    let (most, of_oracle) = (share(&own, is_most), share(&oracle, is_most));
    let words = format!("{}, oracle {}", percent(most), percent(of_oracle));
    line(
        "winner has 98 % of the best",
        words,
        "the oracle's - 1 point",
        most >= of_oracle - 0.01,
    );
}

/// Prints the stability under kills and crashes, and the success of following the advice.
fn stability(trials: &[Trial]) {
    let stable: Vec<[bool; 2]> = trials.iter().filter_map(|trial| trial.stable).collect();
    for (at, name) in ["killed and resumed", "crash and retry"].iter().enumerate() {
        let kept = part(stable.iter().filter(|stable| stable[at]).count(), stable.len());
        let name = format!("{name}: winners allow each other");
        line(&name, percent(kept), "at least 99.5 %", kept >= 0.995);
    }
    let advised: Vec<(f64, bool)> = trials.iter().filter_map(|trial| trial.advised).collect();
    let expected = mean(advised.iter().map(|(expected, _)| *expected));
    let right = part(advised.iter().filter(|(_, right)| *right).count(), advised.len());
    let words = format!(
        "expected {}, right {} (n {})",
        percent(expected),
        percent(right),
        advised.len()
    );
    line(
        "advice followed",
        words,
        "-5 to +10 points",
        (-0.05..=0.1).contains(&(right - expected)),
    );
}

fn share(scores: &[Score], is: impl Fn(&Score) -> bool) -> f64 {
    part(scores.iter().filter(|score| is(score)).count(), scores.len())
}

/// Prints the table of comparisons.
pub fn print_comparisons(all: &[ComparisonResult]) {
    println!(
        "{} comparisons\n| criterion | found | aim | |\n| --- | --- | --- | --- |",
        all.len()
    );
    let sum = all
        .iter()
        .fold((0, 0), |sum, own| (sum.0 + own.held.0, sum.1 + own.held.1));
    let held = part(sum.0, sum.1);
    line(
        "95 % intervals of ratios",
        percent(held),
        "93 to 97 %",
        (0.93..=0.97).contains(&held),
    );
    let same: Vec<&ComparisonResult> = all.iter().filter(|own| own.is_same).collect();
    let share = |of: &[&ComparisonResult], is: fn(&ComparisonResult) -> bool| {
        part(of.iter().filter(|own| is(own)).count(), of.len())
    };
    let alarms = share(&same, |own| own.is_false_alarm);
    line(
        "A/A: improved or regressed",
        percent(alarms),
        "at most 5 %",
        alarms <= 0.05,
    );
    let broken = share(&same, |own| own.guard.0);
    line("A/A: -5 % broken", percent(broken), "at most 1 %", broken <= 0.01);
    let several: Vec<&ComparisonResult> = same.iter().copied().filter(|own| own.starts > 2).collect();
    let undecided = share(&several, |own| !own.guard.0 && own.guard.1);
    println!(
        "| A/A with three starts or more: -5 % undecided | {} | printed | |",
        percent(undecided)
    );
    let other: Vec<&ComparisonResult> = all.iter().filter(|own| !own.is_same).collect();
    let wrong = share(&other, |own| own.is_false_alarm);
    line(
        "a difference: the wrong direction",
        percent(wrong),
        "at most 2.5 %",
        wrong <= 0.025,
    );
    let overlooked = share(&other, |own| own.is_overlooked);
    line(
        "a difference beyond the margin: the same",
        percent(overlooked),
        "at most 2.5 %",
        overlooked <= 0.025,
    );
}

fn coverage(trials: &[Trial]) {
    let sum = |keep: &dyn Fn(&Trial) -> bool, at: usize| {
        let own = trials
            .iter()
            .filter(|trial| keep(trial))
            .map(|trial| trial.intervals[at]);
        own.fold((0, 0), |sum: Coverage, own| (sum.0 + own.0, sum.1 + own.1))
    };
    let share = |(held, all): Coverage| part(held, all);
    for (at, name) in ["95 % intervals", "the same, points with one run"].iter().enumerate() {
        let counts = sum(&|_| true, at);
        if counts.1 == 0 {
            return;
        }
        let held = share(counts);
        line(name, percent(held), "93 to 97 %", (0.93..=0.97).contains(&held));
    }
    for (at, name) in [(2, "winners"), (3, "throughput"), (4, "latency")] {
        println!(
            "| the same, {name} | {} | printed | |",
            percent(share(sum(&|_| true, at)))
        );
    }
    for (low, high) in [(0.0, 0.01), (0.01, 0.02), (0.02, 0.03)] {
        for (least, most) in [(0.0, 0.007), (0.007, 0.02), (0.02, 1.0)] {
            let is_in = |trial: &Trial| (low..high).contains(&trial.noise.0) && (least..most).contains(&trial.noise.1);
            let with = share(sum(&|trial| is_in(trial) && trial.has_starts, 0));
            let without = share(sum(&|trial| is_in(trial) && !trial.has_starts, 0));
            let name = format!(
                "intervals, starts {:.0}-{:.0} %, runs {:.1}-{:.1} %",
                low * 100.0,
                high * 100.0,
                least * 100.0,
                most.min(0.05) * 100.0
            );
            let words = format!("{}, assumed: {}", percent(with), percent(without));
            line(&name, words, "at least 90 %", with >= 0.9);
        }
    }
}

/// True if any criterion was missed.
pub static IS_MISSED: AtomicBool = AtomicBool::new(false);

fn line(name: &str, found: String, aim: &str, is_met: bool) {
    IS_MISSED.fetch_or(!is_met, Ordering::Relaxed);
    println!(
        "| {name} | {found} | {aim} | {} |",
        if is_met { "met" } else { "MISSED" }
    );
}

fn part(some: usize, all: usize) -> f64 {
    some as f64 / all.max(1) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
