//! The points of a matrix and their ids. There may be millions, so they are made one by one.

use super::identity::LoadContent;
use super::{Matrix, Point, ServerConfig, argv};
use crate::Offline;
use std::cell::LazyCell;
use std::ops::Range;
use vsweep_base::ids::{PointId, ServerId};

impl Matrix {
    /// All points, grouped by server.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.servers().flat_map(move |server| {
            let loads = self.planned_loads(server.index, 0);
            loads.map(move |load| self.point_of(&server, load))
        })
    }

    /// The points of one server, in the order of the plan; none if the server is not of this matrix.
    pub fn points_of(&self, server: &ServerConfig) -> impl Iterator<Item = Point> {
        let index = self.index_of(server).into_iter();
        let loads = index.flat_map(|index| self.planned_loads(index, 0));
        loads.map(|load| self.point_of(server, load))
    }

    /// Returns the index of a server, if it is in this matrix and keeps at least one point.
    pub(super) fn index_of(&self, server: &ServerConfig) -> Option<usize> {
        let is_kept = |index: &usize| self.points_of_server.get(*index).is_some_and(|points| *points > 0);
        let index = Some(server.index).filter(is_kept)?;
        let known = self.server_ids[index].get();
        let id = known.cloned().unwrap_or_else(|| self.server(index).id);
        (id == server.id).then_some(index)
    }

    /// Returns the number of loads in the plan. The place of a point is the index of its load.
    pub fn loads(&self) -> usize {
        self.sides.bench.len()
    }

    /// Returns the name of the combination of the load at an index, if the plan names one.
    pub fn combo_of_load(&self, bench: usize) -> Option<String> {
        self.sides.bench.combo_name(bench)
    }

    /// Returns the ids of the points of one server from a place on, each with its place, without making the points. Returns none if the
    /// server is not of this matrix.
    pub fn point_ids_from(&self, server: &ServerConfig, place: usize) -> impl Iterator<Item = (usize, PointId)> {
        let index = self.index_of(server).into_iter();
        let loads = index.flat_map(move |index| self.planned_loads(index, place));
        loads.map(|load| (load, self.load_content(load).point_id(&server.id)))
    }

    /// The point of one server at a place.
    pub fn point_of(&self, server: &ServerConfig, place: usize) -> Point {
        let offline = self.plan.bench.runner.offline();
        let mut point = self.point(place, &server.id);
        // The command line comes after the id: it follows from the server and the parameters, which the id covers.
        if let Some(offline) = offline {
            point.argv = Some(argv::apply(&self.offline_argv(offline, &server.argv), &point.params));
        }
        point
    }

    /// Returns the ids of the points of these servers under some loads, load by load. Each comes with the index of its server in the list,
    /// and the index of its load in the plan.
    pub fn point_ids<'a>(
        &'a self,
        servers: &'a [ServerConfig],
        loads: Range<usize>,
    ) -> impl Iterator<Item = (usize, usize, PointId)> {
        let loads = loads.take_while(|_| !self.finds_its_loads());
        loads.flat_map(move |bench| {
            let content = LazyCell::new(move || self.load_content(bench));
            let kept = servers.iter().enumerate();
            let kept = kept.filter(move |(_, server)| self.keeps(server.index, bench));
            kept.map(move |(place, server)| (place, bench, content.point_id(&server.id)))
        })
    }

    /// Indices, at least `from`, of the loads that are kept for a server; none if a search or an exploration finds the loads.
    fn planned_loads(&self, serve: usize, from: usize) -> impl Iterator<Item = usize> {
        let loads = if self.finds_its_loads() { 0 } else { self.loads() };
        (from..loads).filter(move |load| self.keeps(serve, *load))
    }

    /// Returns the command line of a benchmark on the engine of a server. A command line without `serve`, which is an error reported
    /// elsewhere, is returned as it is.
    pub(super) fn offline_argv(&self, offline: Offline, argv: &[String]) -> Vec<String> {
        offline.command(argv).unwrap_or_else(|_| argv.to_vec())
    }

    fn load_content(&self, bench: usize) -> LoadContent {
        if let Some(template) = &self.template {
            return template.content(&self.sides.bench, bench, &self.secrets);
        }
        let params = self.sides.bench.params(bench);
        let argv = self.bench_argv(&params);
        self.load.content(&params, argv.as_deref(), &self.secrets)
    }

    pub(super) fn point(&self, index: usize, server: &ServerId) -> Point {
        let bench = &self.sides.bench;
        self.point_with(index, bench.params(index), self.name(bench, index), server)
    }
}
