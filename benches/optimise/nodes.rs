//! Nodes with eight GPUs in virtual time. The value of a config is the number of users that it serves within latency targets, by a formula
//! whose constants are drawn and hidden. A twin knows the formula, but with other constants. Half of the nodes follow laws that it lacks.

use crate::landscape::Landscape;
use crate::smooth::grid;
use vsweep_strategy::selection::optimized::Axis;
use vsweep_strategy::stats::Random;

const TP: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const SEQS: [f64; 4] = [32.0, 64.0, 128.0, 256.0];
const BATCH: [f64; 4] = [1024.0, 2048.0, 4096.0, 8192.0];
const GPUS: f64 = 8.0;
/// Number of constants that the twin does not know, and the standard deviation of their logarithms.
const UNKNOWN: usize = 7;
const DEVIATION: f64 = 0.25;

/// Constants of a node and of the model that it serves.
#[derive(Debug, Clone)]
struct Constants {
    weights_gb: f64,
    /// KV cache of a token, at two bytes per number.
    kv_mb: f64,
    memory_gb: f64,
    bandwidth: f64,
    /// TFLOP/s that prefills reach.
    flops: f64,
    floor_ms: f64,
    host_ms: f64,
    link_ms: f64,
    prompt: f64,
    output: f64,
    itl_ms: f64,
    ttft_ms: f64,
    /// Effects of numbers of one byte: `fp8_flops` of weights on compute, `fp8_kv_slow` of a KV cache on the time to read it.
    fp8_flops: f64,
    fp8_kv_slow: f64,
    /// Laws that the twin lacks: steps take longer above a number of sequences, and a link saturates above TP 2.
    step: Option<(f64, f64)>,
    saturated: f64,
}

/// A node with its twin.
pub fn draw(seed: u64) -> Landscape {
    let mut random = Random::of(seed, &["nodes"]);
    let mut between = |low: f64, high: f64| (low.ln() + (high / low).ln() * random.uniform()).exp();
    let weights_gb = between(14.0, 60.0);
    let mut truth = Constants {
        weights_gb,
        kv_mb: between(0.06, 0.25),
        memory_gb: between(68.0, 74.0),
        bandwidth: between(1800.0, 2900.0),
        flops: between(300.0, 600.0),
        floor_ms: between(0.5, 4.0),
        host_ms: between(0.005, 0.05),
        link_ms: between(0.3, 3.0),
        prompt: between(200.0, 4000.0),
        output: between(100.0, 800.0),
        itl_ms: between(30.0, 90.0),
        ttft_ms: between(500.0, 3000.0),
        fp8_flops: between(1.2, 1.8),
        fp8_kv_slow: between(1.0, 1.3),
        step: None,
        saturated: 0.0,
    };
    let mut twin = truth.clone();
    for constant in twin.unknown() {
        *constant *= (DEVIATION * random.normal()).exp();
    }
    twin.memory_gb *= (0.03 * random.normal()).exp();
    let mut start_sd = 0.01;
    if seed % 2 == 1 {
        truth.step = Some((32.0 + 160.0 * random.uniform(), 0.1 + 0.3 * random.uniform()));
        truth.saturated = 0.5 + 2.0 * random.uniform();
        start_sd = 0.025;
    }
    let levels = grid(&[TP.len(), SEQS.len(), BATCH.len(), 2, 2]);
    let value = |constants: &Constants, of: &Vec<usize>| constants.users(of).max(0.05).ln();
    let values: Vec<f64> = levels.iter().map(|of| value(&truth, of)).collect();
    let fits = levels.iter().map(|of| truth.need(of) < 1.0).collect();
    let predicted = levels.iter().map(|of| value(&twin, of)).collect();
    let memory = levels.iter().map(|of| twin.need(of)).collect();
    let slopes = |of: &Vec<usize>| {
        let slope = |constant: usize| {
            let mut moved = twin.clone();
            *moved.unknown()[constant] *= DEVIATION.exp();
            value(&moved, of) - value(&twin, of)
        };
        (0..UNKNOWN).map(slope).collect()
    };
    let slopes = levels.iter().map(slopes).collect();
    let defaults = levels.iter().position(|of| {
        of[0] >= 1
            && of[1] == 3
            && of[2] == 1
            && of[3] == 0
            && of[4] == 0
            && truth.need(of) < 1.0
            && value(&truth, of) > 0.0
    });
    let ordered = |count: usize, is_ordered: bool| (0..count).map(move |_| Axis { is_ordered });
    Landscape {
        axes: ordered(3, true).chain(ordered(2, false)).collect(),
        places: [&TP, &SEQS, &BATCH]
            .iter()
            .map(|of| of.iter().map(|level| level.ln()).collect())
            .collect(),
        levels,
        meets: values.iter().map(|value| *value > 0.0).collect(),
        values,
        fits,
        predicted: Some((predicted, 0.2)),
        slopes,
        memory: Some(memory),
        start_sd,
        run_sd: 0.01,
        defaults: defaults.unwrap_or(0),
        compiled: 1,
    }
}

impl Constants {
    /// The constants that the twin does not know.
    fn unknown(&mut self) -> [&mut f64; UNKNOWN] {
        [
            &mut self.bandwidth,
            &mut self.flops,
            &mut self.floor_ms,
            &mut self.host_ms,
            &mut self.link_ms,
            &mut self.fp8_flops,
            &mut self.fp8_kv_slow,
        ]
    }

    fn weights(&self, of: &[usize]) -> f64 {
        self.weights_gb * if of[3] == 1 { 0.53 } else { 1.0 }
    }

    fn kv_mb(&self, of: &[usize]) -> f64 {
        self.kv_mb * if of[4] == 1 { 0.5 } else { 1.0 }
    }

    /// Share of memory that a server needs at least: for weights, activations and the longest sequence, which is four times the usual one.
    fn need(&self, of: &[usize]) -> f64 {
        let tp = TP[of[0]];
        let activations = 1.0 + BATCH[of[2]] * 4e-4;
        let sequence = (self.prompt + self.output) * self.kv_mb(of) / 1024.0 / tp;
        (self.weights(of) / tp + activations + 4.0 * sequence) / self.memory_gb
    }

    /// Users that all GPUs together serve within the targets.
    fn users(&self, of: &[usize]) -> f64 {
        let (tp, seqs, batch) = (TP[of[0]], SEQS[of[1]], BATCH[of[2]]);
        let activations = 1.0 + batch * 4e-4;
        let blocks_gb = (self.memory_gb - self.weights(of) / tp - activations).max(0.0) * tp;
        let context = self.prompt + 0.5 * self.output;
        let sequence_gb = context * self.kv_mb(of) / 1024.0;
        let most = seqs.min(blocks_gb / sequence_gb);
        let link = if tp > 1.0 {
            self.link_ms * tp.log2() * (1.0 + self.saturated * (tp - 2.0).max(0.0) / 6.0)
        } else {
            0.0
        };
        let flops = self.flops * if of[3] == 1 { self.fp8_flops } else { 1.0 };
        let slow = if of[4] == 1 { self.fp8_kv_slow } else { 1.0 };
        let (mut low, mut high) = (0.0, most * 1.2);
        let holds = |users: f64| {
            let running = users.min(most);
            let mut decode = (self.weights(of) + running * sequence_gb * slow) / (self.bandwidth * tp) * 1e3
                + self.floor_ms
                + link
                + self.host_ms * running;
            if let Some((from, more)) = self.step {
                decode *= 1.0 + more / (1.0 + (-(running - from) / 2.0).exp());
            }
            // A step that also computes a chunk of prompts.
            let token_ms = 2.0 * self.weights_gb / 2.0 / (flops * tp) * 1.1;
            let chunk = decode + batch * token_ms + 0.5 * link;
            let chunks = running * self.prompt / batch / self.output;
            let share = (chunks / (1.0 + chunks)).min(1.0);
            let itl = decode * (1.0 - share) + chunk * share;
            let worst = if share > 0.05 { chunk } else { decode };
            let queue = (users - running).max(0.0) * itl * self.output / running.max(1.0);
            let wait = self.prompt / batch * chunk * (1.0 + 2.0 * share) + queue;
            itl <= self.itl_ms && worst <= 4.0 * self.itl_ms && wait <= self.ttft_ms
        };
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if holds(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        (GPUS / tp) * low
    }
}
