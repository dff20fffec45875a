//! The table of criteria: what was found, what is aimed at, and whether that is reached.

use super::comparisons::Compared;
use super::judge::{Coverage, Score, Trial};

/// Mean value of the winners of grids by the rules before this crate.
const VALUE_TODAY: f64 = 0.9096;

/// Prints it.
pub fn print(trials: &[Trial]) {
    let scores: Vec<(Score, Score)> = trials.iter().filter_map(|trial| trial.scores).collect();
    println!(
        "{} experiments, {} with a winner and a best",
        trials.len(),
        scores.len()
    );
    println!("| criterion | found | aim | |\n| --- | --- | --- | --- |");
    let (own, oracle): (Vec<Score>, Vec<Score>) = scores.iter().copied().unzip();
    let count =
        |scores: &[Score], is: fn(&Score) -> bool| part(scores.iter().filter(|score| is(score)).count(), scores.len());
    let holds = count(&own, |score| score.holds);
    line(
        "winner or ties hold the best",
        percent(holds),
        "at least 95 %",
        holds >= 0.95,
    );
    let ties = |scores: &[Score]| mean(scores.iter().map(|score| score.ties as f64));
    let more = ties(&own) / ties(&oracle);
    let words = format!("{more:.2} ({:.2} of {:.2})", ties(&own), ties(&oracle));
    line("ties, times the oracle's", words, "at most 1.3", more <= 1.3);
    for (low, high, least, most) in [
        (0.9, 1.001, -2.0, 2.0),
        (0.5, 0.9, -2.0, 5.0),
        (0.0, 0.5, f64::NAN, f64::NAN),
    ] {
        let told: Vec<&Score> = own
            .iter()
            .filter(|score| low <= score.claim && score.claim < high)
            .collect();
        let claim = mean(told.iter().map(|score| score.claim));
        let right = mean(told.iter().map(|score| f64::from(u8::from(score.is_right))));
        let slack = 200.0 * (right * (1.0 - right) / told.len() as f64).sqrt();
        let off = 100.0 * (right - claim);
        let words = format!(
            "claimed {}, true {}: {off:+.1} points (n {}, 2 se {slack:.1})",
            percent(claim),
            percent(right),
            told.len()
        );
        let name = format!(
            "calibration, claims of {:.0} to {:.0} %",
            low * 100.0,
            high.min(1.0) * 100.0
        );
        let is_met = match least.is_nan() {
            true => true,
            false if low >= 0.9 => off.abs() <= most + slack,
            false => least <= off && off <= most,
        };
        let aim = if least.is_nan() {
            "printed".to_owned()
        } else {
            format!("{least:+} to {most:+} points")
        };
        line(&name, words, &aim, is_met);
    }
    let brier = |scores: &[Score]| {
        mean(
            scores
                .iter()
                .map(|score| (score.claim - f64::from(u8::from(score.is_right))).powi(2)),
        )
    };
    let words = format!(
        "{:.3} ({:.4} of {:.4})",
        brier(&own) / brier(&oracle),
        brier(&own),
        brier(&oracle)
    );
    line(
        "Brier score, times the oracle's",
        words,
        "at most 1.1",
        brier(&own) <= 1.1 * brier(&oracle),
    );
    let most = count(&own, |score| score.value >= 0.98);
    let most_of_oracle = count(&oracle, |score| score.value >= 0.98);
    let words = format!("{}, oracle {}", percent(most), percent(most_of_oracle));
    line(
        "winner has 98 % of the best",
        words,
        "the oracle's - 1 point",
        most >= most_of_oracle - 0.01,
    );
    let confident: Vec<Score> = own.iter().copied().filter(|score| score.claim >= 0.9).collect();
    let sure = count(&confident, |score| score.value >= 0.98);
    line(
        "the same where it claims 90 % or more",
        percent(sure),
        "at least 98 %",
        sure >= 0.98,
    );
    let value = mean(own.iter().map(|score| score.value));
    match trials.iter().any(|trial| trial.stable.is_some()) {
        true => line(
            "mean value of the winner",
            percent(value),
            &format!("at least {} (today.md)", percent(VALUE_TODAY)),
            value >= VALUE_TODAY,
        ),
        false => println!("| mean value of the winner | {} | printed | |", percent(value)),
    }
    coverage(trials);
    let stable: Vec<[bool; 2]> = trials.iter().filter_map(|trial| trial.stable).collect();
    if stable.is_empty() {
        return;
    }
    for (at, name) in ["killed and resumed", "crash and retry"].iter().enumerate() {
        let kept = part(stable.iter().filter(|stable| stable[at]).count(), stable.len());
        line(
            &format!("{name}: winners allow each other"),
            percent(kept),
            "at least 99.5 %",
            kept >= 0.995,
        );
    }
}

/// Prints the table of comparisons.
pub fn print_comparisons(all: &[Compared]) {
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
    let same: Vec<&Compared> = all.iter().filter(|own| own.is_same).collect();
    let share = |of: &[&Compared], is: fn(&Compared) -> bool| part(of.iter().filter(|own| is(own)).count(), of.len());
    let alarms = share(&same, |own| own.is_false_alarm);
    line(
        "A/A: improved or regressed",
        percent(alarms),
        "at most 5 %",
        alarms <= 0.05,
    );
    let broken = share(&same, |own| own.guard.0);
    line("A/A: -5 % broken", percent(broken), "at most 1 %", broken <= 0.01);
    let several: Vec<&Compared> = same.iter().copied().filter(|own| own.starts > 2).collect();
    let undecided = share(&several, |own| !own.guard.0 && own.guard.1);
    println!(
        "| A/A with three starts or more: -5 % undecided | {} | printed | |",
        percent(undecided)
    );
    let other: Vec<&Compared> = all.iter().filter(|own| !own.is_same).collect();
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

fn line(name: &str, found: String, aim: &str, is_met: bool) {
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
