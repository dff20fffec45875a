//! Shares an experiment between sessions: records a plan for workers, and decides which of its starts each of them may take. The leases by
//! which they divide these starts are in `lease`.

use super::lease::Leases;
use super::writer::SessionWriter;
use super::{Changes, Sweep, Update, Writer, demand, facts};
use crate::agenda::{Start, fits_gpus};
use crate::error::Result;
use crate::journal::{Event, FIRST_SLOT, Recorder, State};
use crate::matrix::ServerConfig;
use crate::plan::{Plan, Program, ServeCommand};
use crate::table::count_gpus;
use itertools::Itertools;
use std::iter;

/// Reason for the end of a session that only recorded a plan.
const SUBMITTED: &str = "submitted";

/// Returns the name of the only lease of a plan that chooses its starts by their results, as a comparison or an optimisation does. One
/// worker measures all its starts, because each start depends on the results of the earlier ones.
pub fn chosen_group(plan: &Plan) -> Option<&'static str> {
    match (&plan.compare, &plan.optimize) {
        (Some(_), _) => Some("compare"),
        (None, Some(_)) => Some("optimize"),
        (None, None) => None,
    }
}

/// The part of an experiment that a worker takes.
#[derive(Debug)]
pub struct Share {
    /// Leases of the groups.
    pub leases: Leases,
    /// The only group that is wanted; `None` for all groups.
    pub group: Option<String>,
    /// Number of GPUs that this worker sees; `None` if it sees none.
    pub gpus: Option<u32>,
}

impl Share {
    /// Returns true if a group is among those that are wanted.
    fn is_for(&self, group: &str) -> bool {
        self.group.as_ref().is_none_or(|only| only == group)
    }

    /// Returns true if a group is wanted, and this session neither has nor had it.
    fn wants(&self, group: &str) -> bool {
        self.is_for(group) && !self.leases.had(group)
    }
}

/// Returns the name of a start in leases, command lines and scripts: `<server>-<slot>`, or one name for all starts that the plan chooses.
pub fn group_name(plan: &Plan, start: &Start) -> String {
    match chosen_group(plan) {
        Some(name) => name.to_owned(),
        None => format!("{}-{}", start.server.id, start.slot),
    }
}

impl Sweep<'_> {
    /// Records the plan for future workers, unless it already is the one that counts. Starts nothing.
    pub async fn declare(&self, changes: Changes, recorder: &mut Recorder) -> Result<()> {
        if recorder.state().sessions().is_empty() || changes.is_any() || !recorder.gaps().is_empty() {
            facts::collect(self.plan)
                .await
                .write(recorder.directory(), false, false)?;
            let mut nobody = |_: Update<'_>, _: &Recorder| Ok(());
            let writer = SessionWriter::new(recorder, &mut nobody);
            self.begin(changes, None, &writer).await?;
            let reason = SUBMITTED.into();
            writer.record(Event::SessionEnded { reason }).await?;
        }
        Ok(())
    }

    /// Returns the wanted servers, without those that an optimisation leaves out because they do not fit on the user's GPUs.
    pub fn startable(&self) -> impl Iterator<Item = ServerConfig> {
        let may_start = move |server: &ServerConfig| self.plan.optimize.is_none() || fits_gpus(self.plan, server);
        self.wanted.servers().filter(may_start)
    }

    /// Returns the names of the groups with remaining work, each with its server. A plan that chooses its starts has one group with all
    /// servers.
    pub fn left(&self, state: &State) -> Vec<(String, Vec<ServerConfig>)> {
        let schedule = self.schedule();
        if let Some(name) = chosen_group(self.plan) {
            let all = || (name.to_owned(), self.startable().collect());
            let is_open = schedule.has_work(state);
            return is_open.then(all).into_iter().collect();
        }
        let open = schedule
            .foreseen(state)
            .filter(|start| schedule.has_group(start, state));
        open.map(|start| (group_name(self.plan, &start), vec![start.server]))
            .collect()
    }

    /// Returns true if a server fits on the GPUs that this worker sees, or its GPUs are not known. A simulator needs GPUs only where they
    /// are divided.
    fn fits_here(&self, share: &Share, server: &ServerConfig) -> bool {
        if let Some(node) = self.node {
            return demand(&self.plan.exec, node.capacity, server) <= node.capacity.gpus;
        }
        let is_simulator = ServeCommand::of(&server.argv).program() == Program::Simulator;
        let needed = count_gpus(&server.params, &server.argv).filter(|_| !is_simulator);
        needed
            .zip(share.gpus)
            .is_none_or(|(needed, seen)| needed <= f64::from(seen))
    }

    /// Returns the names of the servers with remaining work that do not fit on the GPUs that this worker sees: first those that no worker
    /// has, then those that another one has.
    pub fn left_to_larger(&self, share: &Share, state: &State) -> (Vec<String>, Vec<String>) {
        let left = self.left(state).into_iter().filter(|(group, _)| share.is_for(group));
        let (mut free, mut held) = (Vec::new(), Vec::new());
        for (group, servers) in left {
            let large = servers.iter().filter(|server| !self.fits_here(share, server));
            let names = large.map(|server| self.plan.secrets.redact(&server.name)).collect_vec();
            match !names.is_empty() && share.leases.is_held(&group) {
                true => held.extend(names),
                false => free.extend(names),
            }
        }
        (free.into_iter().unique().collect(), held.into_iter().unique().collect())
    }

    /// Returns the groups with remaining work that this session may take: it wants them, neither has nor had them, and has the GPUs.
    fn left_here(&self, share: &Share, state: &State) -> Vec<String> {
        let left = self.left(state).into_iter().filter(|(group, servers)| {
            share.wants(group) && servers.iter().all(|server| self.fits_here(share, server))
        });
        left.map(|(group, _)| group).collect()
    }

    /// Returns true if a group is left that this session may take. If it cannot be taken now, another worker holds it, and may give it up.
    pub fn is_left_to(&self, share: &Share, state: &State) -> bool {
        !self.left_here(share, state).is_empty()
    }

    /// Returns true if another worker has a group that this session may take, or nothing is left to this session.
    pub(super) fn is_done_by_others(&self, share: &Share, state: &State) -> bool {
        let wanted = self.left_here(share, state);
        wanted.is_empty() || wanted.iter().any(|group| share.leases.is_held(group))
    }

    /// Yields the open starts slot by slot: the planned ones, then the fresh ones of the finalists. Other workers take starts meanwhile, so
    /// the starts that are still open are offered again and again. After each round the iterator yields `None` once, and then continues.
    pub(super) fn offers(&self, share: &Share, writer: &SessionWriter<'_>) -> impl Iterator<Item = Vec<Start>> {
        let schedule = self.schedule();
        let is_open = move |start: &Start| {
            share.wants(&group_name(self.plan, start))
                && self.fits_here(share, &start.server)
                && writer.look(|state| schedule.has_group(start, state))
        };
        let finals = self.wanted.starts();
        let mut slots = (FIRST_SLOT..=finals).map(Some).chain([None]).cycle();
        iter::from_fn(move || {
            loop {
                let starts: Vec<Start> = match slots.next()?? {
                    slot if slot == finals => self.finals(writer, &[]),
                    slot => schedule.starts_at(slot).collect(),
                };
                let open: Vec<Start> = starts.into_iter().filter(is_open).collect();
                if !open.is_empty() {
                    return Some(open);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Directory;
    use crate::matrix::Matrix;
    use crate::plan::{Format, World, parse};
    use std::path::Path;

    #[test]
    fn a_worker_takes_what_fits_on_the_gpus_that_it_sees() {
        let left = |command: &str, gpus: Option<u32>| {
            let text = format!(
                "version = 1\n[serve]\ncommand = \"{command}\"\n[serve.params]\ntensor_parallel_size = [1, 4]\n[bench.params]\n\
                 num_prompts = 9\n"
            );
            let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
            let matrix = Matrix::expand(&plan).expect("it expands");
            let (sweep, state) = (Sweep::of(&plan, &matrix), State::default());
            let folder = tempfile::tempdir().expect("a folder");
            let share = |group: Option<String>| Share {
                leases: Leases::of(&Directory::at(folder.path()), "here".into()),
                group,
                gpus,
            };
            let alone = |(group, _)| sweep.is_left_to(&share(Some(group)), &state);
            let taken: Vec<bool> = sweep.left(&state).into_iter().map(alone).collect();
            let large = sweep.left_to_larger(&share(None), &state).0;
            // Another worker has all groups.
            let other = share(None).leases;
            let groups = sweep.left(&state).into_iter().map(|(group, _)| group);
            let _leases = groups.map(|group| other.take(&group).expect("readable")).collect_vec();
            assert_eq!(sweep.left_to_larger(&share(None), &state), (Vec::new(), large.clone()));
            (taken, large.join("; "))
        };
        let named = |names: &str| names.to_owned();
        assert_eq!(left("vllm serve m", Some(4)), (vec![true, true], named("")));
        assert_eq!(left("vllm serve m", None), (vec![true, true], named("")));
        let (taken, large) = left("vllm serve m", Some(2));
        assert_eq!((taken, large), (vec![true, false], named("tensor_parallel_size=4")));
        assert_eq!(left("vsweep sim serve tiny-8b", Some(2)), (vec![true, true], named("")));
    }
}
