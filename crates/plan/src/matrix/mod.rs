//! The plan as meant: axes, links and exclusions expanded into servers and points, parameters turned into command lines.
//!
//! Expansion is lazy: a matrix of a million points holds its axes, not its points. This room starts nothing.

pub mod argv;
mod check;
mod defaults;
mod filter;
mod identity;
mod points;
mod search;
mod serve_flags;
mod space;
mod starved;
mod template;

use crate::{BenchRunner, Diagnostics, Link, ParamRef, Params, Plan, Problems, Secrets, Side, Target, commands, show};
use filter::Agreement;
use identity::SharedLoad;
use itertools::Itertools;
pub use search::{LoadExploration, LoadFinder, LoadSearch};
pub use serve_flags::ServeFlags;
pub use space::MOST_PAIRS;
use space::{Sides, Space};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use template::LoadTemplate;
use vsweep_base::ids::{PointId, ServerId};
use vsweep_base::printable::printable;

/// One server config: a command line and an environment, with the parameters that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Made from the resolved command line and environment without secrets; for an attached server, from its URL and parameters.
    pub id: ServerId,
    /// Short text for people: the combo's name and the parameters that vary, e.g. `fp8 tensor_parallel_size=2`.
    pub name: String,
    /// Program and arguments; empty when attaching to a running server.
    pub argv: Vec<String>,
    /// Environment added to vsweep's own; may hold secrets, so never write it without [`crate::Secrets`]'s redaction.
    pub env: BTreeMap<String, String>,
    /// Every server parameter with its value.
    pub params: Params,
    /// Name of its combination, if the plan names one.
    pub combo: Option<String>,
    /// Index among the configurations of the server side.
    pub index: usize,
}

/// One point: a server config under one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Made from the server's identity and everything that decides the load.
    pub id: PointId,
    /// The server it is measured on.
    pub server: ServerId,
    /// Short text for people: the bench parameters that vary, e.g. `max_concurrency=32`.
    pub name: String,
    /// Every bench parameter with its value; derived values are computed.
    pub params: Params,
    /// Name of the load's combination, if the plan names one.
    pub combo: Option<String>,
    /// Command line of another program's benchmark; `None` for a benchmark of vsweep itself.
    pub argv: Option<Vec<String>>,
}

/// Size of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Number of servers that keep at least one point.
    pub servers: u64,
    /// True if one of them has the default settings, and false if links leave that server no point; `None` if it is one of the axes.
    pub keeps_defaults: Option<bool>,
    /// Minimum number of starts of all servers together.
    pub starts: u64,
    /// Number of points; 0 if a search or an exploration finds the loads.
    pub points: u64,
    /// Number of searches and explorations on all starts together, each of which asks for points of its own; 0 without `[sla]` and
    /// `[explore]`.
    pub searches: u64,
    /// Minimum number of runs: the repetitions of every point on every start, and the repeated first points.
    pub runs: u64,
    /// Number of pairs of server and load before links, exclusions and `--only`.
    pub pairs: u64,
    /// Number of pairs removed by each link, each exclusion and `--only`, in the order in which they are applied.
    pub removed: Vec<FilterCount>,
}

/// Number of pairs removed by one link or exclusion, or by `--only`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterCount {
    /// The link, the exclusion or `--only`, as in `exclude bench.max_concurrency > 64`.
    pub text: String,
    /// Number of pairs that it removed from the pairs that earlier ones kept.
    pub pairs: u64,
}

/// All servers and points of a plan. It holds the axes, and makes servers and points on request.
#[derive(Debug, Clone)]
pub struct Matrix {
    plan: Plan,
    sides: Sides,
    filters: Vec<PairFilter>,
    /// Number of points that each configuration of the server side keeps.
    points_of_server: Vec<u32>,
    /// Their ids, each computed once.
    server_ids: Vec<OnceLock<ServerId>>,
    /// Minimum number of starts of each server.
    starts: u32,
    load: SharedLoad,
    /// Template of the identity of every load, if loads differ in single parameters only.
    template: Option<LoadTemplate>,
    /// Secrets of the plan, without those of vsweep's own environment.
    secrets: Secrets,
}

/// A filter that removes the pairs in `pairs`, or all others.
#[derive(Debug, Clone)]
struct PairFilter {
    kind: FilterKind,
    pairs: Agreement,
    removed: FilterCount,
}

/// Source of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterKind {
    /// A link of the plan, which keeps its pairs.
    Link,
    /// An exclusion of the plan, which removes its pairs.
    Exclusion,
    /// `--only`, which keeps its pairs and so narrows the matrix to a part of its plan.
    Only,
}

impl Matrix {
    /// Expands a plan. Fails if links or exclusions do not fit the axes, if two servers or two loads are the same, if no point is left, if
    /// there are more than [`MOST_PAIRS`] pairs, or if a search, a comparison or an optimisation cannot work on the servers and loads.
    pub fn expand(plan: &Plan) -> Result<Matrix, Problems> {
        let mut found = Diagnostics::default();
        match Matrix::draft(plan, &mut found) {
            Some(matrix) if found.is_empty() => Ok(matrix),
            _ => Err(found.into_problems(&plan.origin.sources, &plan.secrets)),
        }
    }

    /// Expands a plan that may be incomplete. Adds problems to `found`, except those that may only follow from earlier ones. `None` if the
    /// matrix is too large.
    pub fn draft(plan: &Plan, found: &mut Diagnostics) -> Option<Matrix> {
        if found.is_empty() || (plan.link.equal.is_empty() && plan.link.zip.is_empty()) {
            return expand(plan, &plan.link, found);
        }
        // Links may refer to unreadable parts of the plan; without the links the matrix may be too large.
        let mut untied = plan.clone();
        untied.link = Link::default();
        let is_small = Sides::of_plan(&untied).fit();
        is_small.then(|| expand(&untied, &plan.link, found)).flatten()
    }

    /// The servers that keep at least one point, in the order of the plan.
    pub fn servers(&self) -> impl Iterator<Item = ServerConfig> {
        self.kept_servers().map(|index| self.server(index))
    }

    /// Returns the name of the load at an index.
    pub fn name_of_load(&self, bench: usize) -> String {
        self.name(&self.sides.bench, bench)
    }

    /// Returns the number of points of one server, without making them; 0 if a search or an exploration finds the loads.
    pub fn count_of(&self, server: &ServerConfig) -> u64 {
        let kept = self
            .points_of_server
            .get(server.index)
            .filter(|_| !self.finds_its_loads());
        kept.map_or(0, |points| u64::from(*points))
    }

    /// Returns the size of the matrix, and how many pairs links, exclusions and `--only` removed.
    pub fn counts(&self) -> Counts {
        let kept: u64 = self.points_of_server.iter().map(|count| u64::from(*count)).sum();
        let (points, searches) = match self.finds_its_loads() {
            true => (0, kept * u64::from(self.starts)),
            false => (kept, 0),
        };
        let servers = self.kept_servers().count() as u64;
        let repeated = servers * u64::from(self.plan.repeat_first && !self.finds_its_loads());
        Counts {
            servers,
            keeps_defaults: self.keeps_defaults(),
            starts: servers * u64::from(self.starts),
            points,
            searches,
            runs: u64::from(self.starts) * (points * u64::from(self.plan.runs.least()) + repeated),
            pairs: self.sides.serve.len() as u64 * self.sides.bench.len() as u64,
            removed: self.filters.iter().map(|filter| filter.removed.clone()).collect(),
        }
    }

    /// Returns true if a search or an exploration chooses the loads, so that no points are known in advance.
    pub fn finds_its_loads(&self) -> bool {
        self.plan.sla.is_some() || self.plan.explore.is_some()
    }

    /// Returns the minimum number of starts of each server.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// Returns true if the matrix was narrowed to a part of its plan.
    pub fn is_part(&self) -> bool {
        self.filters.iter().any(|filter| filter.kind == FilterKind::Only)
    }

    fn kept_servers(&self) -> impl Iterator<Item = usize> {
        let counts = self.points_of_server.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(index, _)| index)
    }

    /// Indices of the loads that are kept for a server.
    fn kept_loads(&self, serve: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.sides.bench.len()).filter(move |bench| self.keeps(serve, *bench))
    }

    /// Returns true if any server is kept for a load.
    fn is_kept(&self, bench: usize) -> bool {
        (0..self.sides.serve.len()).any(|serve| self.keeps(serve, bench))
    }

    fn server(&self, index: usize) -> ServerConfig {
        let serve = &self.plan.serve;
        let params = self.sides.serve.params(index);
        let argv = match &serve.target {
            Target::Launch(commands) => {
                let flags = commands::flags(&params);
                argv::apply_as(&commands.of(&params), &flags, serve.protocol.flag_style)
            }
            Target::Attach(_) => Vec::new(),
        };
        let env = commands::environment(&serve.env, &params);
        let id = || identity::server_id(serve, &argv, &env, &params, &self.secrets);
        ServerConfig {
            id: self.server_ids[index].get_or_init(id).clone(),
            name: self.name(&self.sides.serve, index),
            argv,
            env,
            params,
            combo: self.sides.serve.combo_name(index),
            index,
        }
    }

    /// Name of a configuration, printable and without secrets.
    fn name(&self, space: &Space, index: usize) -> String {
        printable(&self.secrets.redact(&space.label(index))).into_owned()
    }

    /// Returns true if the load comes from vsweep's own generator.
    fn is_own_load(&self) -> bool {
        self.plan.bench.runner == BenchRunner::Native
    }

    /// The point of a load with these parameters.
    fn point_with(&self, index: usize, params: Params, name: String, server: &ServerId) -> Point {
        let argv = self.bench_argv(&params);
        Point {
            id: self
                .load
                .content(&params, argv.as_deref(), &self.secrets)
                .point_id(server),
            server: server.clone(),
            name,
            params,
            combo: self.sides.bench.combo_name(index),
            argv,
        }
    }

    /// The command line of another program's benchmark.
    pub fn bench_argv(&self, params: &Params) -> Option<Vec<String>> {
        match &self.plan.bench.runner {
            BenchRunner::Native | BenchRunner::Iterations | BenchRunner::Phases | BenchRunner::Offline(_) => None,
            BenchRunner::Command(commands) => Some(argv::fill_in(&commands.of(params), &commands::flags(params))),
        }
    }

    /// The names of all parameters of a side, those of combinations last.
    pub fn names(&self, side: Side) -> Vec<&str> {
        self.sides.of(side).names()
    }

    /// Returns true if links, exclusions and narrowing keep a pair.
    fn keeps(&self, serve: usize, bench: usize) -> bool {
        self.remover(serve, bench).is_none()
    }

    /// Index of the first filter that removes a pair.
    fn remover(&self, serve: usize, bench: usize) -> Option<usize> {
        self.filters.iter().position(|PairFilter { kind, pairs, .. }| {
            let is_in = pairs.has(serve, bench);
            is_in == (*kind == FilterKind::Exclusion)
        })
    }

    /// Visits every pair once, and counts the points of each server and the pairs that each filter removes.
    fn count(&mut self) {
        let mut points_of_server = vec![0u32; self.sides.serve.len()];
        let mut removed = vec![0u64; self.filters.len()];
        for (serve, points) in points_of_server.iter_mut().enumerate() {
            for bench in 0..self.sides.bench.len() {
                match self.remover(serve, bench) {
                    Some(position) => removed[position] += 1,
                    None => *points += 1,
                }
            }
        }
        self.points_of_server = points_of_server;
        for (filter, pairs) in self.filters.iter_mut().zip(removed) {
            filter.removed.pairs = pairs;
        }
    }
}

/// Returns parameters as a text for people: `name=value, name=value`.
pub fn settings_text(params: &Params) -> String {
    let shown: Vec<String> = params
        .iter()
        .map(|(name, value)| format!("{name}={}", show(value)))
        .collect();
    shown.join(", ")
}

/// Expands a plan; see [`Matrix::draft`]. `tied` are the links as written, which `plan` lacks if only a part of it could be read.
fn expand(plan: &Plan, tied: &Link, found: &mut Diagnostics) -> Option<Matrix> {
    let is_whole = found.is_empty();
    let sides = Sides::of_plan(plan);
    if !check::size(plan, &sides, found) {
        return None;
    }
    let (load, secrets) = (SharedLoad::of_plan(plan), plan.secrets.of_plan());
    let mut matrix = Matrix {
        template: LoadTemplate::of(plan, &sides.bench, &load, &secrets),
        load,
        starts: plan.starts,
        filters: Vec::new(),
        server_ids: vec![OnceLock::new(); sides.serve.len()],
        sides,
        points_of_server: Vec::new(),
        secrets,
        plan: plan.clone(),
    };
    matrix.settle_defaults();
    matrix.filters = filters(plan, &matrix.sides);
    check::exclusions(plan, &matrix, is_whole, found);
    check::duplicates(plan, &matrix, tied, found);
    matrix.count();
    matrix.starts = fewest_starts(plan, matrix.kept_servers().count());
    if is_whole {
        check::leftovers(plan, &matrix, found);
        check::searches(plan, &matrix, found);
        check::comparison(plan, &matrix, found);
        check::optimization(plan, &matrix, found);
        starved::warn(plan, &matrix, found);
    }
    Some(matrix)
}

/// Returns the minimum number of starts of each server: in a comparison of two servers four, because the comparison is first judged after
/// four pairs of starts; on the axis of a comparison, one.
fn fewest_starts(plan: &Plan, servers: usize) -> u32 {
    match (&plan.compare, servers) {
        (None, _) => plan.starts,
        (Some(_), 2) => 4,
        (Some(_), _) => 1,
    }
}

/// The links of a plan, `equal` before `zip`, then its exclusions.
fn filters(plan: &Plan, sides: &Sides) -> Vec<PairFilter> {
    let filter = |kind: FilterKind, pairs: Agreement, text: String| PairFilter {
        kind,
        pairs,
        removed: FilterCount { text, pairs: 0 },
    };
    let link = |word: &str, group: &[ParamRef], pairs: Agreement| {
        filter(FilterKind::Link, pairs, format!("{word} {}", group.iter().join(", ")))
    };
    let equal = plan.link.equal.iter();
    let equal = equal.map(|group| link("equal", group, Agreement::of_values(group, sides)));
    let zipped = plan.link.zip.iter();
    let zipped = zipped.filter_map(|group| Some(link("zip", group, Agreement::of_positions(group, sides)?)));
    let exclusions = plan.exclude.iter().filter(|block| !block.is_empty()).map(|block| {
        let text = format!("exclude {}", block.iter().join(" and "));
        filter(FilterKind::Exclusion, Agreement::of_conditions(block, sides), text)
    });
    equal.chain(zipped).chain(exclusions).collect()
}
