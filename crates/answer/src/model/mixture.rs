//! The distribution of a point over all noise levels: a mixture of normal distributions.

use std::f64::consts::TAU;
use vsweep_strategy::stats::normal_quantile;

/// One of the normal distributions of a mixture.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// Its mean.
    pub mean: f64,
    /// Its variance.
    pub variance: f64,
    /// Its probability.
    pub weight: f64,
}

/// Largest number of components of each of two mixtures whose difference is computed from all pairs.
const MOST_JOINED: usize = 40;
/// Maximum number of steps of the search for a quantile.
const MOST_STEPS: usize = 60;
/// Largest size of the last step, relative to the smallest deviation. Halley's method cubes the error with each step, so the error that
/// remains is below the precision of a number.
const LAST_STEP: f64 = 1e-5;

/// Returns the mean and standard deviation of a mixture.
pub fn moments(components: &[Component]) -> (f64, f64) {
    let mean: f64 = components
        .iter()
        .map(|component| component.mean * component.weight)
        .sum();
    let second = components
        .iter()
        .map(|component| (component.variance + (component.mean - mean).powi(2)) * component.weight);
    (mean, second.sum::<f64>().sqrt())
}

/// Returns the distribution of the difference of two independent variables, `new - base`.
pub fn difference(base: &[Component], new: &[Component]) -> Vec<Component> {
    let (base, new) = (joined(base), joined(new));
    let pairs = base.iter().flat_map(|was| new.iter().map(move |is| (was, is)));
    let difference = pairs.map(|(was, is)| Component {
        mean: is.mean - was.mean,
        variance: was.variance + is.variance,
        weight: was.weight * is.weight,
    });
    difference.collect()
}

/// Joins components of similar variance until at most [`MOST_JOINED`] are left. Mean and variance of the mixture stay.
fn joined(components: &[Component]) -> Vec<Component> {
    let mut sorted = components.to_vec();
    sorted.sort_by(|one, other| one.variance.total_cmp(&other.variance));
    let join = |own: &[Component]| {
        let weight: f64 = own.iter().map(|component| component.weight).sum();
        let part = |component: &Component| Component {
            weight: component.weight / weight,
            ..*component
        };
        let (mean, deviation) = moments(&own.iter().map(part).collect::<Vec<Component>>());
        Component {
            mean,
            variance: deviation * deviation,
            weight,
        }
    };
    let each = sorted.len().div_ceil(MOST_JOINED).max(1);
    sorted.chunks(each).map(join).collect()
}

/// Returns the central interval of a mixture that has the given probability.
pub fn interval(components: &[Component], probability: f64) -> (f64, f64) {
    let outside = (1.0 - probability) / 2.0;
    let normal = normal_quantile(outside);
    (
        quantile(components, outside, -normal),
        quantile(components, 1.0 - outside, normal),
    )
}

/// Returns the quantile of a mixture at `probability`, by Halley's method between bounds; NaN if a moment is not finite. The search begins
/// near `normal`, the quantile of the standard normal distribution.
pub fn quantile(components: &[Component], probability: f64, normal: f64) -> f64 {
    let (mean, spread) = moments(components);
    let own: Vec<(f64, f64, f64)> = components
        .iter()
        .map(|component| {
            (
                component.mean,
                component.variance.sqrt().max(f64::MIN_POSITIVE),
                component.weight,
            )
        })
        .collect();
    let reach = |sign: f64| {
        own.iter()
            .map(move |(mean, deviation, _)| mean + sign * 9.0 * deviation)
    };
    let mut low = reach(-1.0).fold(f64::INFINITY, f64::min);
    let mut high = reach(1.0).fold(f64::NEG_INFINITY, f64::max);
    let is_known = mean.is_finite() && spread.is_finite() && low <= high;
    if !is_known {
        return f64::NAN;
    }
    let mut at = (mean + normal * spread).clamp(low, high);
    let enough = LAST_STEP * own.iter().map(|(_, deviation, _)| *deviation).fold(spread, f64::min);
    for _ in 0..MOST_STEPS {
        let (mut below, mut density, mut slope) = (0.0, 0.0, 0.0);
        for (mean, deviation, weight) in &own {
            let off = (at - mean) / deviation;
            let (part_below, part_density) = standard_normal(off);
            let part_density = weight * part_density / deviation;
            below += weight * part_below;
            density += part_density;
            slope -= part_density * off / deviation;
        }
        match below < probability {
            true => low = at,
            false => high = at,
        }
        let newton = (probability - below) / density;
        // Halley's correction is used only near the root; far from it, Newton's step or the bounds lead on.
        let bend = newton * slope / (2.0 * density);
        let step = if bend.abs() < 0.5 {
            newton / (1.0 + bend)
        } else {
            newton
        };
        if newton.abs() <= enough {
            return at + step;
        }
        at = if low < at + step && at + step < high {
            at + step
        } else {
            (low + high) / 2.0
        };
    }
    at
}

/// Returns the probability below a value of the standard normal distribution, and the density there. Both come from one exponential,
/// because a large experiment needs hundreds of thousands of them. Rational approximation by Hart et al. (1968), number 5666, with an
/// absolute error of 1e-15.
fn standard_normal(at: f64) -> (f64, f64) {
    const NUMERATOR: [f64; 7] = [
        3.526_249_659_989_11e-2,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ];
    const DENOMINATOR: [f64; 8] = [
        8.838_834_764_831_84e-2,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ];
    let far = at.abs();
    let part = (-far * far / 2.0).exp();
    let tail = if far < 5.0 * std::f64::consts::SQRT_2 {
        let polynomial = |terms: &[f64]| terms.iter().fold(0.0, |sum, term| sum * far + term);
        part * polynomial(&NUMERATOR) / polynomial(&DENOMINATOR)
    } else {
        // Beyond, the first terms of the continued fraction are as exact.
        let fraction = (1..=4)
            .rev()
            .fold(far + 0.65, |below, term| far + f64::from(term) / below);
        part / fraction / TAU.sqrt()
    };
    let below = if at > 0.0 { 1.0 - tail } else { tail };
    (below, part / TAU.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_normal_distribution_is_that_of_the_error_function() {
        // By Python's `math.erfc`.
        let known = [
            (-38.0, 0.0),
            (-8.0, 6.220960574271819e-16),
            (-4.05, 2.5608816474041537e-5),
            (-2.5, 0.006209665325776139),
            (-1.0, 0.15865525393145707),
            (-0.3, 0.3820885778110474),
            (0.0, 0.5),
            (0.7, 0.758036347776927),
            (1.96, 0.9750021048517795),
            (3.5, 0.9997673709209645),
        ];
        for (at, below) in known {
            assert!((standard_normal(at).0 - below).abs() < 1e-15, "{at}");
        }
        for step in -1200..=1200 {
            let at = f64::from(step) / 100.0;
            let between = standard_normal(at + 1e-4).0 - standard_normal(at - 1e-4).0;
            let (_, density) = standard_normal(at);
            assert!((density - between / 2e-4).abs() < 1e-8, "{at}: {density}");
        }
    }

    #[test]
    fn a_difference_of_many_components_is_that_of_all_pairs() {
        let side = |shift: f64, count: u32| -> Vec<Component> {
            let component = |size: u32| Component {
                mean: shift + 1e-4 * f64::from(size),
                variance: (0.005 + f64::from(size) / 2000.0).powi(2),
                weight: 1.0 / f64::from(count),
            };
            (0..count).map(component).collect()
        };
        let (base, new) = (side(0.0, 150), side(0.1, 40));
        let pairs = base.iter().flat_map(|was| new.iter().map(move |is| (was, is)));
        let pairs = pairs.map(|(was, is)| Component {
            mean: is.mean - was.mean,
            variance: was.variance + is.variance,
            weight: was.weight * is.weight,
        });
        let (low, high) = interval(&pairs.collect::<Vec<Component>>(), 0.95);
        let found = interval(&difference(&base, &new), 0.95);
        assert!((found.0 - low).abs() < 1e-3 * (high - low), "{found:?} {low} {high}");
        assert!((found.1 - high).abs() < 1e-3 * (high - low), "{found:?} {low} {high}");
        let back = interval(&difference(&new, &base), 0.95);
        assert!(
            (back.0 + found.1).abs() < 1e-9 && (back.1 + found.0).abs() < 1e-9,
            "{back:?}"
        );
    }

    #[test]
    fn as_much_lies_below_a_quantile_as_is_asked() {
        let narrow = [(1.0, 1e-4, 0.3), (1.1, 4e-4, 0.2), (0.9, 1.0, 0.5)];
        let apart = [(-5.0, 1e-6, 0.5), (5.0, 1e-6, 0.5)];
        let (one, exact) = ([(3.0, 4.0, 1.0)], [(2.0, 0.0, 1.0)]);
        // One mean with many assumed noise levels, as after a single run.
        let sizes: Vec<(f64, f64, f64)> = (1..=60)
            .map(|size| (7.0, (f64::from(size) / 500.0).powi(2), 1.0 / 60.0))
            .collect();
        for components in [&narrow[..], &apart, &one, &exact, &sizes] {
            let components: Vec<Component> = components
                .iter()
                .map(|(mean, variance, weight)| Component {
                    mean: *mean,
                    variance: *variance,
                    weight: *weight,
                })
                .collect();
            for probability in [0.001, 0.025, 0.3, 0.975, 0.999] {
                let found = quantile(&components, probability, -normal_quantile(probability));
                let below = |at: f64| {
                    let own = components.iter();
                    own.map(|component| {
                        component.weight * standard_normal((at - component.mean) / component.variance.sqrt()).0
                    })
                    .sum::<f64>()
                };
                match components[0].variance > 0.0 {
                    true => assert!((below(found) - probability).abs() < 1e-11, "{found} {components:?}"),
                    false => assert!((found - 2.0).abs() < 1e-12, "{found}"),
                }
            }
        }
    }
}
