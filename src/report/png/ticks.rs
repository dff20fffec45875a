//! From values to positions along an axis, and round numbers for its ticks.

use crate::report::chart::{Axis, Scale, Tick};
use crate::report::words::show_number;

/// An axis with its extent: turns values into fractions from 0 (its start) to 1 (its end).
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Span {
    /// The extent that shows all values: a linear axis begins at zero unless values are negative; both ends leave a
    /// little room, so that no marker is cut.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Span {
        let covered = axis.covers.map(|(least, most)| [least, most]).into_iter().flatten();
        let finite = values.chain(covered).filter(|value| value.is_finite());
        let extent = finite.fold(None, |extent: Option<(f64, f64)>, value| {
            let (least, most) = extent.unwrap_or((value, value));
            Some((least.min(value), most.max(value)))
        });
        let (least, most) = extent.unwrap_or((0.0, 1.0));
        match axis.scale {
            Scale::Log if least > 0.0 => {
                let room = ((most / least).ln() * 0.05).max(0.2);
                Span {
                    scale: Scale::Log,
                    from: (least.ln() - room).exp().max(f64::MIN_POSITIVE),
                    to: (most.ln() + room).exp().min(f64::MAX),
                }
            }
            _ => {
                let from = least.min(0.0);
                let to = if most.max(0.0) > from { most.max(0.0) } else { 1.0 };
                let extent = to - from;
                Span {
                    scale: Scale::Linear,
                    from: if from < 0.0 { from - extent * 0.06 } else { 0.0 },
                    to: to + extent * 0.07,
                }
            }
        }
    }

    /// Where a value lies, as a fraction of the axis; never far outside it, so that any value can be drawn.
    pub fn fraction(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        if fraction.is_nan() {
            0.0
        } else {
            fraction.clamp(-0.5, 1.5)
        }
    }

    /// Ticks at round numbers within the extent, about as many as wanted.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let places = match self.scale {
            Scale::Linear => self.even(wanted),
            Scale::Log => self.decades(),
        };
        let tick = |at| Tick {
            at,
            label: show_number(at),
        };
        places.into_iter().map(tick).collect()
    }

    fn even(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / wanted.max(1) as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step).floor() as i64);
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn decades(&self) -> Vec<f64> {
        let width = (self.to / self.from).log10();
        let factors: &[f64] = match width {
            width if width <= 2.5 => &[1.0, 2.0, 5.0],
            width if width <= 4.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let places = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)));
        places.filter(|place| (self.from..=self.to).contains(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(scale: Scale) -> Axis {
        Axis {
            title: String::new(),
            scale,
            ticks: Vec::new(),
            covers: None,
        }
    }

    #[test]
    fn ticks_are_round() {
        let labels = |scale, values: &[f64]| {
            let span = Span::of(&axis(scale), values.iter().copied());
            span.ticks(5)
                .into_iter()
                .map(|tick| tick.label)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(labels(Scale::Linear, &[3.0, 97.0]), "0 25 50 75 100");
        assert_eq!(labels(Scale::Log, &[3.0, 970.0]), "3 10 30 100 300 1,000");
        assert_eq!(labels(Scale::Linear, &[0.0]), "0 0.25 0.5 0.75 1");
        assert_eq!(labels(Scale::Linear, &[]), "0 0.25 0.5 0.75 1");
    }

    proptest! {
        #[test]
        fn any_number_can_be_drawn(values in prop::collection::vec(any::<f64>(), 0..6), log: bool) {
            let span = Span::of(&axis(if log { Scale::Log } else { Scale::Linear }), values.iter().copied());
            prop_assert!(span.ticks(6).len() < 1000);
            prop_assert!(values.iter().all(|value| span.fraction(*value).is_finite()));
        }

        #[test]
        fn every_value_lies_within_its_axis(values in prop::collection::vec(-1e12..1e12f64, 1..20), log: bool) {
            let span = Span::of(&axis(if log { Scale::Log } else { Scale::Linear }), values.iter().copied());
            for value in values {
                prop_assert!((0.0..=1.0).contains(&span.fraction(value)));
            }
            prop_assert!(span.ticks(6).len() < 40);
        }
    }
}
