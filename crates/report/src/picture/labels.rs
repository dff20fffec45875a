//! Places labels near their points, clear of other labels, points, lines and the edge.

use crate::ordered::Order;

/// An axis-parallel box: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    /// The square around a point whose sides are `reach` away from it.
    pub fn around((x, y): (f64, f64), reach: f64) -> Rect {
        Rect {
            left: x - reach,
            top: y - reach,
            right: x + reach,
            bottom: y + reach,
        }
    }

    fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(&self, outer: &Rect) -> bool {
        self.left >= outer.left && self.right <= outer.right && self.top >= outer.top && self.bottom <= outer.bottom
    }

    /// Returns true if the line between two places touches the box (Liang–Barsky clipping).
    fn is_crossed(&self, from: (f64, f64), to: (f64, f64)) -> bool {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        let sides = [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ];
        for (step, room) in sides {
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enter = enter.max(room / step);
            } else {
                leave = leave.min(room / step);
            }
        }
        enter <= leave
    }
}

/// A label to place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Label {
    /// The point it belongs to.
    pub point: (f64, f64),
    pub width: f64,
    pub height: f64,
}

/// Obstacles for a label.
#[derive(Debug)]
pub struct Surroundings {
    /// The area that labels must stay in.
    pub bounds: Rect,
    /// Places where a marker is.
    pub markers: Vec<(f64, f64)>,
    /// Radius of a marker with its margin.
    pub reach: f64,
    /// Lines that no label may hide.
    pub lines: Vec<Vec<(f64, f64)>>,
    /// Lines in the background, which a label may hide if it finds no other room nearby.
    pub faint: Vec<Vec<(f64, f64)>>,
}

/// Distances from the point at which a label is tried. A thin line joins a far label to its point.
const DISTANCES: [f64; 7] = [20.0, 32.0, 52.0, 84.0, 124.0, 170.0, 230.0];
/// Number of directions in which a label is tried at each distance.
const DIRECTIONS: usize = 16;
/// Number of the distances that count as near.
const NEAR: usize = 4;

/// Returns the box of each label, or `None` if it finds no room.
pub fn place_labels(labels: &[Label], surroundings: &Surroundings) -> Vec<Option<Rect>> {
    let mut taken: Vec<Rect> = Vec::new();
    let mut leaders: Vec<[(f64, f64); 2]> = Vec::new();
    let mut placed = vec![None; labels.len()];
    // The first and the last point show the extent of the line and have the least room, so their labels are placed first.
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.order_by_key(|i| usize::from(*i != 0 && i + 1 != labels.len()));
    for i in order {
        let label = &labels[i];
        let crosses = |lines: &[Vec<(f64, f64)>], around: &Rect| {
            let mut pieces = lines.iter().flat_map(|line| line.windows(2));
            pieces.any(|ends| around.is_crossed(ends[0], ends[1]))
        };
        let is_free = |candidate: &Rect| {
            let around = Rect {
                left: candidate.left - 5.0,
                top: candidate.top - 3.0,
                right: candidate.right + 5.0,
                bottom: candidate.bottom + 3.0,
            };
            let leader = [label.point, anchor(label.point, candidate)];
            let mut markers = surroundings.markers.iter();
            around.is_within(&surroundings.bounds)
                && !taken
                    .iter()
                    .any(|other| other.overlaps(&around) || other.is_crossed(leader[0], leader[1]))
                && !leaders.iter().any(|[from, to]| around.is_crossed(*from, *to))
                && !markers.any(|marker| Rect::around(*marker, surroundings.reach).overlaps(&around))
                && !crosses(&surroundings.lines, &around)
        };
        let mut near = candidates(label).take(NEAR * DIRECTIONS);
        let room = near
            .find(|candidate| is_free(candidate) && !crosses(&surroundings.faint, candidate))
            .or_else(|| candidates(label).find(is_free));
        if let Some(room) = room {
            leaders.push([label.point, anchor(label.point, &room)]);
            taken.push(room);
        }
        placed[i] = room;
    }
    placed
}

/// The place on a box's edge that is nearest to the point.
pub fn anchor((x, y): (f64, f64), label: &Rect) -> (f64, f64) {
    (x.clamp(label.left, label.right), y.clamp(label.top, label.bottom))
}

fn candidates(label: &Label) -> impl Iterator<Item = Rect> {
    let ((x, y), width, height) = (label.point, label.width, label.height);
    let turns = move |distance: f64| {
        (0..DIRECTIONS).map(move |i| {
            // The first directions are above and to the right, where a frontier usually leaves room.
            let i = [14, 15, 13, 0, 12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6][i];
            let angle = i as f64 / DIRECTIONS as f64 * std::f64::consts::TAU;
            let (across, down) = (angle.cos(), angle.sin());
            let left = x + across * distance + (across - 1.0) / 2.0 * width;
            let top = y + down * distance + (down - 1.0) / 2.0 * height;
            Rect {
                left,
                top,
                right: left + width,
                bottom: top + height,
            }
        })
    };
    DISTANCES.into_iter().flat_map(turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(point: (f64, f64), width: f64) -> Label {
        Label {
            point,
            width,
            height: 40.0,
        }
    }

    proptest! {
        #[test]
        fn labels_keep_clear_of_everything(points in prop::collection::vec((0.0..600.0f64, 0.0..400.0f64), 0..30)) {
            let bounds = Rect { left: 0.0, top: 0.0, right: 600.0, bottom: 400.0 };
            let surroundings = Surroundings { bounds, markers: points.clone(), reach: 8.0, lines: vec![points.clone()], faint: Vec::new() };
            let labels: Vec<_> = points.iter().map(|point| label(*point, 90.0)).collect();
            let placed: Vec<Rect> = place_labels(&labels, &surroundings).into_iter().flatten().collect();
            for (i, label) in placed.iter().enumerate() {
                prop_assert!(label.is_within(&bounds));
                prop_assert!(!placed[..i].iter().any(|other| other.overlaps(label)));
                prop_assert!(!points.iter().any(|point| Rect::around(*point, 8.0).overlaps(label)));
            }
        }
    }

    #[test]
    fn a_lone_label_gets_room() {
        let bounds = Rect::around((100.0, 100.0), 100.0);
        let surroundings = Surroundings {
            bounds,
            markers: vec![(100.0, 100.0)],
            reach: 8.0,
            lines: Vec::new(),
            faint: Vec::new(),
        };
        let placed = place_labels(&[label((100.0, 100.0), 60.0)], &surroundings);
        assert!(placed[0].is_some());
        let placed = place_labels(&[label((100.0, 100.0), 600.0)], &surroundings);
        assert!(placed[0].is_none());
    }
}
