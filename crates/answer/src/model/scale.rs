//! Converts figures to the scale on which their noise is modelled and back, and computes the variance of sampling on that scale.

use super::super::experiment::{Metric, Point, Scale};
use super::super::run_figures::Figure;

/// Noise between runs that plain estimates assume, as a standard deviation on a logarithmic scale.
pub const PLAIN_RUN: f64 = 0.01;
/// Noise between starts that plain estimates assume, as a standard deviation on a logarithmic scale.
pub const PLAIN_START: f64 = 0.01;
/// Additional noise of a disturbed run, as a standard deviation relative to a typical figure.
const DISTURBED: f64 = 0.1;

/// Smallest size that is assumed for a typical figure, so that neither its square nor the inverse of the square leaves the range of `f64`.
pub const LEAST_SIZE: f64 = 1e-100;
/// Limit of figures and variances. Larger ones are not used: they cannot be measurements, and the squares of some would overflow.
const LARGEST: f64 = 1e100;

impl Scale {
    /// Returns the position of a figure on the scale. `None` if the figure has no position, such as 0 on a logarithmic scale, or is too
    /// large for a measurement.
    ///
    /// Shares become angles, `asin(sqrt(share))`. The variance of a beta-binomial share, `p (1 - p) (1 / n + rho)`, becomes
    /// `(1 / n + rho) / 4`, which is the same for every share. So the overdispersion of runs and that of starts can be added, as for other
    /// noise. The counts are corrected as by Anscombe (1948).
    pub fn place(self, figure: Figure) -> Option<f64> {
        let place = match (self, figure) {
            (Scale::Log, Figure::Value { value, .. }) => (value > 0.0).then(|| value.ln()),
            (Scale::Linear | Scale::Count, Figure::Value { value, .. }) => Some(value),
            (Scale::Share, Figure::Value { value, .. }) => Some(value.clamp(0.0, 1.0).sqrt().asin()),
            (Scale::Share, Figure::Share { met, of }) => {
                (of > 0.0).then(|| ((met + 0.375) / (of + 0.75)).clamp(0.0, 1.0).sqrt().asin())
            }
            (Scale::Log, Figure::Share { met, of }) => (met > 0.0 && of > 0.0).then(|| (met / of).ln()),
            (Scale::Linear | Scale::Count, Figure::Share { met, of }) => (of > 0.0).then(|| met / of),
        };
        place.filter(|place| place.abs() < LARGEST)
    }

    /// Returns the figure at a position on the scale.
    pub fn value(self, place: f64) -> f64 {
        match self {
            Scale::Log => place.exp(),
            Scale::Linear | Scale::Count => place,
            Scale::Share => place.clamp(0.0, std::f64::consts::FRAC_PI_2).sin().powi(2),
        }
    }
}

/// Returns the relative change of a share for a small change of its angle: `d ln(sin² a) / da`.
pub fn relative_to_angle(share: f64) -> f64 {
    let share = share.clamp(0.005, 0.995);
    2.0 * ((1.0 - share) / share).sqrt()
}

/// Returns the value of a figure in the metric's unit.
pub fn in_unit(figure: Figure) -> f64 {
    match figure {
        Figure::Value { value, .. } => value,
        Figure::Share { met, of } => met / of,
    }
}

/// Returns the figures of a point, ascending, if the metric's scale is logarithmic and one of them is 0 or below, which has no position
/// there.
pub fn with_zero(point: &Point, metric: &Metric) -> Option<Vec<f64>> {
    let figures = || {
        let figures = point.runs.iter().filter_map(|run| run.figures.get(&metric.name));
        figures.map(|figure| in_unit(*figure)).filter(|value| value.is_finite())
    };
    let has_zero = metric.scale == Scale::Log && figures().any(|value| value <= 0.0);
    has_zero.then(|| {
        let mut all: Vec<f64> = figures().collect();
        all.sort_by(f64::total_cmp);
        all
    })
}

/// Returns the variance of a figure on its scale, due to sampling and to a disturbance of its run. `size` is the size of a typical figure
/// on the scales `Linear` and `Count`, and 1 on the others.
pub fn variance_of_sampling(scale: Scale, is_disturbed: bool, figure: Figure, size: f64) -> f64 {
    let sampling = match (scale, figure) {
        (Scale::Log | Scale::Linear | Scale::Count, Figure::Value { error, .. }) => error.powi(2),
        (Scale::Share, Figure::Value { value, error }) => {
            let share = value.clamp(0.005, 0.995);
            error.powi(2) / (4.0 * share * (1.0 - share))
        }
        (Scale::Share, Figure::Share { of, .. }) => 0.25 / (of + 0.5),
        (Scale::Log, Figure::Share { met, of }) => (1.0 / met.max(1.0) - 1.0 / of).max(0.0),
        (Scale::Linear | Scale::Count, Figure::Share { met, of }) => {
            let share = (met + 0.5) / (of + 1.0);
            share * (1.0 - share) / of
        }
    };
    let sampling = if sampling < LARGEST { sampling } else { size * size };
    let disturbed = if is_disturbed { (DISTURBED * size).powi(2) } else { 0.0 };
    sampling + disturbed
}
