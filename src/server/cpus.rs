//! Sets of CPUs: read and written as the kernel lists them, assigned to threads, and divided among servers that run side by side.

use itertools::Itertools;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

/// Least number of cores of a share, one for the load and two for the server. With fewer, CPUs are not divided.
const LEAST_CORES: usize = 3;

/// Some CPUs of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpus(BTreeSet<usize>);

/// CPUs divided among servers and the load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Division {
    /// CPUs of each server's share, in the order of the argument of [`Cpus::divide`].
    pub shares: Vec<Cpus>,
    /// CPUs for the load.
    pub rest: Cpus,
}

impl Cpus {
    /// CPUs that this thread may use.
    pub fn allowed() -> io::Result<Cpus> {
        let set = sched_getaffinity(Pid::from_raw(0))?;
        let is_in = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
        Ok(Cpus((0..CpuSet::count()).filter(is_in).collect()))
    }

    /// Restricts this thread, and everything that it starts from now on, to these CPUs.
    pub fn pin(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().try_for_each(|cpu| set.set(*cpu))?;
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    }

    /// Union of several sets.
    pub fn join<'a>(parts: impl IntoIterator<Item = &'a Cpus>) -> Cpus {
        Cpus(parts.into_iter().flat_map(|part| part.0.iter().copied()).collect())
    }

    /// Divides the CPUs into shares of whole cores, one for each entry of `near`. An entry has the CPUs near a device, if known; its share
    /// is taken from these. One core of each share is left for the load. `None` if there are too few cores, or they cannot be divided.
    pub fn divide(&self, near: &[Option<Cpus>]) -> Option<Division> {
        self.divide_cores(near, &siblings)
    }

    fn divide_cores(&self, near: &[Option<Cpus>], siblings: &dyn Fn(usize) -> Option<Cpus>) -> Option<Division> {
        let local = |near: &Option<Cpus>| match near {
            Some(near) if !near.0.is_disjoint(&self.0) => near.0.intersection(&self.0).copied().collect(),
            _ => self.0.clone(),
        };
        let mut shares_by_cpus: BTreeMap<BTreeSet<usize>, Vec<usize>> = BTreeMap::new();
        for (share, near) in near.iter().enumerate() {
            shares_by_cpus.entry(local(near)).or_default().push(share);
        }
        let mut division = Division {
            shares: vec![Cpus::default(); near.len()],
            rest: self.clone(),
        };
        for (cpus, shares) in shares_by_cpus {
            let cores = cores(&cpus, siblings);
            let each = cores.len() / shares.len();
            if each < LEAST_CORES {
                return None;
            }
            for (share, cores) in shares.iter().zip(cores.chunks(each)) {
                let taken: BTreeSet<usize> = cores[1..].iter().flatten().copied().collect();
                // Devices with partly overlapping neighbourhoods cannot be separated.
                if !taken.is_subset(&division.rest.0) {
                    return None;
                }
                division.rest.0.retain(|cpu| !taken.contains(cpu));
                division.shares[*share] = Cpus(taken);
            }
        }
        Some(division)
    }
}

/// Groups CPUs by their core, because CPUs of one core slow each other down.
fn cores(cpus: &BTreeSet<usize>, siblings: &dyn Fn(usize) -> Option<Cpus>) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &cpu in cpus {
        let first = siblings(cpu).and_then(|core| core.0.first().copied());
        cores.entry(first.unwrap_or(cpu)).or_default().push(cpu);
    }
    cores.into_values().collect()
}

/// Returns all CPUs of the core to which this CPU belongs, as the kernel reports them.
fn siblings(cpu: usize) -> Option<Cpus> {
    read(&format!(
        "/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    ))
}

/// Returns the CPUs near a device of the PCI bus, as the kernel reports them. `nvidia-smi` writes the domain of an address with eight
/// digits, the kernel with four.
pub fn near_device(address: &str) -> Option<Cpus> {
    let address = address.to_ascii_lowercase();
    let (domain, rest) = address.split_once(':')?;
    let domain = &domain[domain.len().saturating_sub(4)..];
    read(&format!("/sys/bus/pci/devices/{domain}:{rest}/local_cpulist"))
}

fn read(path: &str) -> Option<Cpus> {
    let cpus: Cpus = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (!cpus.0.is_empty()).then_some(cpus)
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        let mut cpus = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu < CpuSet::count());
            match (number(first), number(last)) {
                (Some(first), Some(last)) => cpus.extend(first..=last),
                _ => {
                    return Err(format!(
                        "`{part}` is not a CPU; write numbers and ranges, such as 0-3,8"
                    ));
                }
            }
        }
        Ok(Cpus(cpus))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let mut shown = ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        f.write_str(&shown.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Cpus {
        text.parse().expect("a list")
    }

    /// Sixteen cores of two CPUs each, `n` and `n + 16`.
    fn twins(cpu: usize) -> Option<Cpus> {
        Some(Cpus([cpu % 16, cpu % 16 + 16].into()))
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(cpus("8,0-2, 1").to_string(), "0-2,8");
        assert_eq!(cpus("").to_string(), "");
        assert!("a".parse::<Cpus>().is_err() && "1-".parse::<Cpus>().is_err() && "9999".parse::<Cpus>().is_err());
    }

    #[test]
    fn shares_are_whole_cores_near_their_device_and_one_core_each_is_for_the_load() {
        let near = ["0-7,16-23", "0-7,16-23", "8-15,24-31", "8-15,24-31"].map(|near| Some(cpus(near)));
        let division = cpus("0-31").divide_cores(&near, &twins).expect("enough");
        let shares: Vec<String> = division.shares.iter().map(Cpus::to_string).collect();
        assert_eq!(shares, ["1-3,17-19", "5-7,21-23", "9-11,25-27", "13-15,29-31"]);
        assert_eq!(division.rest.to_string(), "0,4,8,12,16,20,24,28");
    }

    #[test]
    fn what_is_not_known_or_not_ours_is_left_out() {
        let division = cpus("0-7")
            .divide_cores(&[None, Some(cpus("40-47"))], &|_| None)
            .expect("enough");
        let shares: Vec<String> = division.shares.iter().map(Cpus::to_string).collect();
        assert_eq!((shares, division.rest), (vec!["1-3".into(), "5-7".into()], cpus("0,4")));
        assert_eq!(cpus("0-4").divide_cores(&[None, None], &|_| None), None);
        let overlapping = [Some(cpus("0-3")), Some(cpus("2-9"))];
        assert_eq!(cpus("0-9").divide_cores(&overlapping, &|_| None), None);
    }

    #[test]
    fn a_thread_is_kept_to_its_cpus() {
        let allowed = Cpus::allowed().expect("readable");
        let first = Cpus(allowed.0.iter().take(1).copied().collect());
        let inside = std::thread::spawn(move || {
            first.pin().expect("one of ours");
            (Cpus::allowed().expect("readable"), first)
        });
        let (now, first) = inside.join().expect("no panic");
        assert_eq!(now, first);
        assert_eq!(Cpus::allowed().expect("readable"), allowed);
    }
}
