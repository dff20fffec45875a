//! Seeded random numbers, with a separate stream for each name.

/// A stream of random numbers: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    spare: Option<f64>,
}

/// The distance from one state to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Returns the stream of a seed and a name. If each config has its own name, the numbers for one config do not depend on the others.
    pub fn of(seed: u64, name: &[&str]) -> Random {
        let bytes = name.iter().flat_map(|part| part.bytes().chain([0]));
        // FNV-1a, whose basis carries the seed.
        let basis = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(STEP);
        let state = bytes.fold(basis, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // Similar names get states that are not similar.
        Random::seeded(mixed(state))
    }

    /// Returns the stream that follows this state.
    pub fn seeded(state: u64) -> Random {
        Random { state, spare: None }
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state)
    }

    /// Returns a uniform number between 0 and 1, both excluded.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Returns a uniform whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Returns a standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Puts a list into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// The numbers that successive calls of [`Random::normal`] return, by index. A large experiment draws only some of them at a time.
#[derive(Debug, Clone)]
pub struct Normals {
    begin: Random,
    /// Index of the last pair of numbers, and the pair. Two numbers are made at once.
    last: Option<(u64, [f64; 2])>,
}

impl Normals {
    /// Returns the numbers of a stream from its present state.
    pub fn of(begin: Random) -> Normals {
        Normals {
            begin: Random { spare: None, ..begin },
            last: None,
        }
    }

    /// Returns the number at an index.
    pub fn at(&mut self, index: u64) -> f64 {
        let (pair, of_pair) = (index / 2, (index % 2) as usize);
        match self.last {
            Some((last, numbers)) if last == pair => numbers[of_pair],
            _ => {
                let mut stream = self.begin.clone();
                // A pair takes two steps.
                stream.state = stream.state.wrapping_add(STEP.wrapping_mul(2).wrapping_mul(pair));
                let numbers = [stream.normal(), stream.normal()];
                self.last = Some((pair, numbers));
                numbers[of_pair]
            }
        }
    }
}

/// Returns the output of SplitMix64 for a state.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_by_index_equals_the_one_drawn_in_order() {
        let mut random = Random::of(7, &["by", "place"]);
        let mut normals = Normals::of(random.clone());
        let numbers: Vec<f64> = (0..50).map(|_| random.normal()).collect();
        for place in [3, 2, 49, 0, 1, 7, 6, 6, 48, 31] {
            assert_eq!(normals.at(place), numbers[place as usize]);
        }
    }
}
