//! The distributions that intervals and tests need, from `statrs`, with its panics and errors kept out. Their values are
//! held against scipy's (`tests/data/distributions.csv`).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The value that a standard normal variable exceeds with probability `tail`, 0 to 1.
pub fn normal_quantile(tail: f64) -> f64 {
    -Normal::standard().inverse_cdf(tail)
}

/// Student's t that is exceeded in absolute value with probability `alpha`: the half-width, in standard errors, of an interval of
/// confidence `1 - alpha`. Infinite below one degree of freedom, where `statrs` 0.19.1 is off by half in the far tail.
pub fn student_quantile(alpha: f64, freedom: f64) -> f64 {
    student(freedom).map_or(f64::INFINITY, |student| -student.inverse_cdf(alpha / 2.0))
}

/// The probability that Student's t is at least as far from zero as `t`. 1 below one degree of freedom.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom >= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_scipy_has_them() {
        let vectors = include_str!("../../tests/data/distributions.csv");
        let mut seen = 0;
        for line in vectors.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<f64>().unwrap_or(f64::NAN);
            let found = match fields[0] {
                "normal_quantile" => normal_quantile(number(1)),
                "student_quantile" => student_quantile(number(1), number(2)),
                "student_two_sided" => student_two_sided(number(1), number(2)),
                other => panic!("{other}"),
            };
            let expected = number(4);
            let scale = expected.abs().max(f64::MIN_POSITIVE);
            assert!((found - expected).abs() / scale < 1e-7, "{line}: {found}");
            seen += 1;
        }
        assert_eq!(seen, 140);
    }

    #[test]
    fn without_freedom_nothing_is_known() {
        assert_eq!(student_quantile(0.05, 0.9), f64::INFINITY);
        assert_eq!(student_two_sided(100.0, 0.0), 1.0);
    }
}
