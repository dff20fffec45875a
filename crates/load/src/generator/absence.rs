//! Measures how long the event loop did not look at the network, because it was busy or because it was not scheduled. Busy time is measured
//! directly. A loop that was not scheduled is noticed only by the timer for sweeps, which should have woken it earlier.

use std::ops::Range;
use vsweep_metrics::Nanos;

/// Length of an absence, in nanoseconds, above which it is counted. Shorter absences are the loop's ordinary work.
const NOTICED: Nanos = 10_000_000;

/// The absences so far, and the time at which the loop should be woken at the latest.
#[derive(Debug)]
pub(super) struct Absence {
    pub longest: Nanos,
    /// Sum of all absences above 10 ms.
    pub total: Nanos,
    /// Intervals of these absences. If the loop was woken late, the interval includes the wait.
    pub times: Vec<Range<Nanos>>,
    period: Nanos,
    /// End of the last turn.
    last: Nanos,
    next_sweep: Nanos,
}

impl Absence {
    /// Measures a loop whose sweeper wakes it every `period`.
    pub fn new(period: Nanos) -> Absence {
        Absence {
            longest: 0,
            total: 0,
            times: Vec::new(),
            period,
            last: 0,
            next_sweep: period,
        }
    }

    /// Notes a look at the network. If it is later than the time of the next sweep, the difference is an absence. A process that was
    /// stopped while it waited may have been away for up to a period longer.
    pub fn looked(&mut self, at: Nanos) {
        self.note(at.saturating_sub(self.next_sweep), self.last..at);
    }

    /// Notes a turn of the loop. Returns true if it is time to sweep; the next sweep is then due a period later.
    pub fn worked(&mut self, began: Nanos, ended: Nanos) -> bool {
        self.note(ended.saturating_sub(began), began..ended);
        self.last = ended;
        let is_due = ended >= self.next_sweep;
        if is_due {
            self.next_sweep = ended + self.period;
        }
        is_due
    }

    fn note(&mut self, absence: Nanos, time: Range<Nanos>) {
        self.longest = self.longest.max(absence);
        if absence > NOTICED {
            self.total += absence;
            self.times.push(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_and_a_late_timer_both_count() {
        let mut absence = Absence::new(100);
        absence.looked(40);
        assert!(!absence.worked(40, 43));
        assert_eq!(absence.longest, 3);
        absence.looked(100);
        assert!(absence.worked(100, 101));
        assert_eq!(absence.longest, 3, "the timer was in time");
        // The process was stopped from 150 to 1150, so it woke 949 after the timer of 201.
        absence.looked(1150);
        assert!(absence.worked(1150, 1151));
        assert_eq!(absence.longest, 949);
    }

    #[test]
    fn absences_add_up_and_ordinary_turns_do_not() {
        let mut absence = Absence::new(100_000_000);
        for _ in 0..3 {
            absence.worked(0, 9_000_000);
            absence.worked(0, 11_000_000);
        }
        assert_eq!((absence.longest, absence.total), (11_000_000, 33_000_000));
        assert_eq!(absence.times, vec![0..11_000_000; 3]);
        // The process was stopped somewhere in the wait that began at 11 ms.
        absence.looked(200_000_000);
        assert_eq!(absence.times.last(), Some(&(11_000_000..200_000_000)));
    }
}
