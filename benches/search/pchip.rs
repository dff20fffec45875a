//! The monotone piecewise cubic through a set of points (Fritsch & Butland 1984, as in SciPy's `PchipInterpolator`),
//! and its first root.

/// The smallest x at which the interpolant through `points` (ascending x) is zero; None without a change of sign.
pub fn first_root(points: &[(f64, f64)]) -> Option<f64> {
    let slopes = slopes(points);
    points.windows(2).zip(slopes.windows(2)).find_map(|(ends, slopes)| {
        let [(x0, y0), (x1, y1)] = [ends[0], ends[1]];
        if y0 == 0.0 {
            return Some(x0);
        }
        if y0 * y1 > 0.0 {
            return None;
        }
        // A monotone piece has one root, so halving its bracket finds it.
        let (mut left, mut right) = (0.0, 1.0);
        for _ in 0..200 {
            let middle = (left + right) / 2.0;
            let y = hermite(middle, x1 - x0, [y0, y1], [slopes[0], slopes[1]]);
            if y * y0 > 0.0 { left = middle } else { right = middle }
        }
        Some(x0 + right * (x1 - x0))
    })
}

fn hermite(t: f64, width: f64, y: [f64; 2], slope: [f64; 2]) -> f64 {
    let u = 1.0 - t;
    (1.0 + 2.0 * t) * u * u * y[0] + t * u * u * width * slope[0] + t * t * (3.0 - 2.0 * t) * y[1]
        - t * t * u * width * slope[1]
}

fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let widths: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let secants: Vec<f64> = points
        .windows(2)
        .zip(&widths)
        .map(|(pair, width)| (pair[1].1 - pair[0].1) / width)
        .collect();
    let [first, .., last] = secants.as_slice() else {
        return vec![secants.first().copied().unwrap_or(0.0); points.len()];
    };
    let mut slopes = vec![end(widths[0], widths[1], *first, secants[1])];
    for i in 1..secants.len() {
        let (before, after) = (secants[i - 1], secants[i]);
        let (w1, w2) = (2.0 * widths[i] + widths[i - 1], widths[i] + 2.0 * widths[i - 1]);
        slopes.push(if before * after <= 0.0 {
            0.0
        } else {
            (w1 + w2) / (w1 / before + w2 / after)
        });
    }
    let n = secants.len();
    slopes.push(end(widths[n - 1], widths[n - 2], *last, secants[n - 2]));
    slopes
}

/// The one-sided three-point slope at an end, limited so that the piece stays monotone.
fn end(width: f64, next_width: f64, secant: f64, next_secant: f64) -> f64 {
    let slope = ((2.0 * width + next_width) * secant - width * next_secant) / (width + next_width);
    if slope.signum() != secant.signum() {
        0.0
    } else if secant.signum() != next_secant.signum() && slope.abs() > 3.0 * secant.abs() {
        3.0 * secant
    } else {
        slope
    }
}
