//! Maps values to positions along an axis, and chooses round numbers for its ticks.

use crate::chart::{Axis, Scale, Tick};
use crate::texts::words::{show_alike, show_number};
use itertools::Itertools;

/// Values are far from zero if all of them exceed this share of the largest.
const FAR: f64 = 0.6;

/// An axis with its extent: turns values into fractions from 0 (its start) to 1 (its end).
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Span {
    /// The extent that shows all values. A linear axis begins at zero, unless values are negative, or all values are far from zero and the
    /// axis may leave it out. Other ends leave a little room, so that no marker is cut.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Span {
        let covered = axis.covers.map(|(least, most)| [least, most]).into_iter().flatten();
        let finite = values.chain(covered).filter(|value| value.is_finite());
        let (least, most) = finite.minmax().into_option().unwrap_or((0.0, 1.0));
        let scale = match axis.scale {
            Scale::Log if least <= 0.0 => Scale::Linear,
            scale => scale,
        };
        let (from, to) = match scale {
            Scale::Log => {
                let room = ((most / least).ln() * 0.05).max(0.2);
                let (from, to) = ((least.ln() - room).exp(), (most.ln() + room).exp());
                (from.max(f64::MIN_POSITIVE), to.min(f64::MAX))
            }
            Scale::Symlog => {
                let (least, most) = (bend(least.min(0.0)), bend(most.max(1.0)));
                let room = (most - least) * 0.05;
                let from = if least < 0.0 { unbend(least - room) } else { 0.0 };
                (from.max(f64::MIN), unbend(most + room).min(f64::MAX))
            }
            Scale::Linear if axis.may_leave_out_zero && least > FAR * most => {
                let room = ((most - least) * 0.07).max(most * 1e-3);
                (least - room, most + room)
            }
            Scale::Linear => {
                let from = least.min(0.0);
                let to = if most.max(0.0) > from { most.max(0.0) } else { 1.0 };
                let extent = to - from;
                let from = if from < 0.0 { from - extent * 0.06 } else { 0.0 };
                (from, to + extent * 0.07)
            }
        };
        Span { scale, from, to }
    }

    /// Returns true if the axis is logarithmic, at least away from zero.
    pub fn is_log(&self) -> bool {
        self.scale != Scale::Linear
    }

    /// Position of a value as a fraction of the axis, from -0.5 to 1.5, so that any value can be drawn; 0 for a value without a position.
    pub fn fraction(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.ln(),
            Scale::Symlog => bend(value),
        };
        let from = place(self.from);
        let fraction = (place(value) - from) / (place(self.to) - from);
        if fraction.is_nan() {
            0.0
        } else {
            fraction.clamp(-0.5, 1.5)
        }
    }

    /// Ticks at round numbers within the extent, about as many as wanted.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let places = match self.scale {
            Scale::Linear => self.evenly_spaced(wanted),
            Scale::Log => decades(self.from, self.to),
            Scale::Symlog => self.both_ways(),
        };
        let labels = match self.scale {
            Scale::Linear => show_alike(&places),
            // Ticks of decades have no common step, so each label has the digits that it needs.
            Scale::Log | Scale::Symlog => places.iter().map(|place| show_number(*place)).collect(),
        };
        places
            .into_iter()
            .zip(labels)
            .map(|(at, label)| Tick { at, label })
            .collect()
    }

    /// Extends a linear or logarithmic span whose last tick lies below `most`, up to a tick that does not.
    pub fn up_to_a_tick_above(self, most: f64, wanted: usize) -> Span {
        let to = match self.scale {
            Scale::Linear => match self.evenly_spaced(wanted)[..] {
                [.., before, last] if last < most => Some(last + (last - before)),
                _ => None,
            },
            Scale::Log if decades(self.from, self.to).last().is_some_and(|last| *last < most) => {
                // A longer axis may have other ticks, so its end must be one of its own ticks.
                let mut above = decades(self.from, (self.to * 10.0).min(f64::MAX)).into_iter();
                above.find(|end| *end >= most && decades(self.from, *end).last() == Some(end))
            }
            Scale::Log | Scale::Symlog => None,
        };
        Span {
            to: to.unwrap_or(self.to),
            ..self
        }
    }

    fn evenly_spaced(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / wanted.max(1) as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step).floor() as i64);
        (first..=last).map(|i| i as f64 * step).collect()
    }

    /// Zero, and the decades from one on in both directions.
    fn both_ways(&self) -> Vec<f64> {
        let up = |end: f64| if end > 1.0 { decades(1.0, end) } else { Vec::new() };
        let down = up(-self.from).into_iter().rev().map(|place| -place);
        down.chain([0.0]).chain(up(self.to)).collect()
    }
}

/// Round numbers between two positive ones, denser where there are few decades.
fn decades(from: f64, to: f64) -> Vec<f64> {
    let factors: &[f64] = match (to / from).log10() {
        width if width <= 2.5 => &[1.0, 2.0, 5.0],
        width if width <= 4.0 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let places = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)));
    places.filter(|place| (from..=to).contains(place)).collect()
}

/// A value's place on a symmetric logarithmic axis: about linear up to one, logarithmic beyond, without a corner between.
fn bend(value: f64) -> f64 {
    value.asinh()
}

fn unbend(place: f64) -> f64 {
    place.sinh()
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
            may_leave_out_zero: false,
        }
    }

    #[test]
    fn an_axis_may_leave_out_zero_far_below_all_values() {
        let from = |axis: Axis, values: [f64; 2]| Span::of(&axis, values.into_iter()).fraction(values[0]);
        let floating = || axis(Scale::Linear).floating();
        assert!(from(axis(Scale::Linear), [90.0, 100.0]) > 0.8);
        assert!(from(floating(), [90.0, 100.0]) < 0.1);
        assert!(from(floating(), [10.0, 100.0]) < 0.1);
        assert!(from(floating(), [40.0, 100.0]) > 0.3);
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
        assert_eq!(
            labels(Scale::Symlog, &[-30.0, 0.0, 300.0]),
            "-50 -20 -10 -5 -2 -1 0 1 3 10 30 100 300"
        );
        assert_eq!(labels(Scale::Symlog, &[0.2]), "0 1");
        assert_eq!(labels(Scale::Linear, &[0.0]), "0 0.25 0.50 0.75 1.00");
        assert_eq!(labels(Scale::Linear, &[]), "0 0.25 0.50 0.75 1.00");
    }

    #[test]
    fn ticks_reach_what_is_drawn() {
        let values = [140.0, 18_207.0];
        let span = Span::of(&axis(Scale::Linear), values.into_iter());
        let last = |span: &Span| span.ticks(5).last().map(|tick| tick.at);
        assert_eq!(last(&span), Some(15_000.0));
        assert_eq!(last(&span.up_to_a_tick_above(18_207.0, 5)), Some(20_000.0));
        for (most, end) in [(18_207.0, 20_000.0), (38_000.0, 100_000.0), (250_000.0, 300_000.0)] {
            let span = Span::of(&axis(Scale::Log), [140.0, most].into_iter());
            assert_eq!(last(&span.up_to_a_tick_above(most, 5)), Some(end));
        }
        let span = Span::of(&axis(Scale::Log), [140.0, 1.5e308].into_iter());
        assert!(last(&span.up_to_a_tick_above(1.5e308, 5)).is_some());
    }

    fn scales() -> impl Strategy<Value = Scale> {
        prop_oneof![Just(Scale::Linear), Just(Scale::Log), Just(Scale::Symlog)]
    }

    proptest! {
        #[test]
        fn any_number_can_be_drawn(values in prop::collection::vec(any::<f64>(), 0..6), scale in scales()) {
            let span = Span::of(&axis(scale), values.iter().copied());
            prop_assert!(span.ticks(6).len() < 1000);
            prop_assert!(values.iter().all(|value| span.fraction(*value).is_finite()));
        }

        #[test]
        fn every_value_lies_within_its_axis(values in prop::collection::vec(-1e12..1e12f64, 1..20), scale in scales()) {
            let span = Span::of(&axis(scale), values.iter().copied());
            for value in values {
                prop_assert!((0.0..=1.0).contains(&span.fraction(value)));
            }
            prop_assert!(span.ticks(6).len() < 40);
        }
    }
}
