//! Measures the packing of groups on a node of eight GPUs, in virtual time: `cargo bench --bench packing`.
//!
//! Forty random plans with servers of 1, 2, 4 or 8 GPUs. With 24 groups or more, the total time is compared with a lower bound (all GPUs
//! are always busy, or the longest group runs alone), once with the true durations and once with durations that are wrong by 20 %. With
//! fewer groups it is compared with the best of 1000 random orders. Ends with an error if a ratio is too high.

#[path = "support/random.rs"]
mod random;

use random::Random;
use std::process::ExitCode;
use vsweep_strategy::selection::packed::{Capacity, Need, length};

const NODE: Capacity = Capacity { gpus: 8, groups: 8 };
const PLANS: usize = 40;
/// Number of groups from which the lower bound can be reached.
const MANY: usize = 24;
const ORDERS: usize = 1000;
/// Standard deviation of the logarithm of a wrong duration.
const WRONG: f64 = 0.2;

/// Upper limits of the ratios.
const MOST_TRUE: f64 = 1.05;
const MOST_WRONG: f64 = 1.20;
const MOST_FEW: f64 = 1.10;

fn main() -> ExitCode {
    let mut draw = Random(14);
    let (mut exact, mut wrong, mut few) = (Vec::new(), Vec::new(), Vec::new());
    println!("groups  hours  of the bound  lengths wrong  of the best of {ORDERS}");
    for plan in 0..PLANS {
        let groups = match plan % 2 {
            0 => draw.between(MANY as f64, 97.0) as usize,
            _ => draw.between(2.0, MANY as f64) as usize,
        };
        let needs: Vec<Need> = (0..groups).map(|_| need(&mut draw)).collect();
        let order = NODE.order(&needs);
        let hours = length(&NODE.play(&needs, &order)) / 3600.0;
        let of_bound = hours * 3600.0 / NODE.bound(&needs);
        if groups >= MANY {
            let really: Vec<Need> = needs.iter().map(|need| mistaken(*need, &mut draw)).collect();
            let of_wrong = length(&NODE.play(&really, &order)) / NODE.bound(&really);
            println!("{groups:6}  {hours:5.2}  {of_bound:12.3}  {of_wrong:13.3}");
            exact.push(of_bound);
            wrong.push(of_wrong);
        } else {
            let best = (0..ORDERS).map(|_| length(&NODE.play(&needs, &shuffled(groups, &mut draw))));
            let of_best = hours * 3600.0 / best.fold(f64::INFINITY, f64::min);
            println!("{groups:6}  {hours:5.2}  {of_bound:12.3}  {:13}  {of_best:15.3}", "");
            few.push(of_best);
        }
    }
    let met = [
        judge(
            &format!("{MANY} groups or more, true lengths, over the bound"),
            &exact,
            MOST_TRUE,
        ),
        judge(
            &format!("{MANY} groups or more, wrong lengths, over the bound"),
            &wrong,
            MOST_WRONG,
        ),
        judge(
            &format!("fewer groups, over the best of {ORDERS} random orders"),
            &few,
            MOST_FEW,
        ),
    ];
    match met.iter().all(|met| *met) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Draws a group. Narrow groups are more frequent, as in plans that share GPUs, and some groups take ten times as long as others.
fn need(draw: &mut Random) -> Need {
    Need {
        gpus: draw.one_of(&[1, 1, 1, 2, 2, 4, 8]),
        seconds: draw.log_between(180.0, 1800.0),
        alone: false,
    }
}

fn mistaken(need: Need, draw: &mut Random) -> Need {
    Need {
        seconds: need.seconds * (WRONG * draw.normal()).exp(),
        ..need
    }
}

fn shuffled(groups: usize, draw: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups).collect();
    for last in (1..groups).rev() {
        order.swap(last, draw.between(0.0, last as f64 + 1.0) as usize);
    }
    order
}

fn judge(what: &str, ratios: &[f64], most: f64) -> bool {
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let met = worst <= most;
    let verdict = if met { "met" } else { "MISSED" };
    println!(
        "{what}: mean {mean:.3}, worst {worst:.3} of {} plans, at most {most}: {verdict}",
        ratios.len()
    );
    met
}
