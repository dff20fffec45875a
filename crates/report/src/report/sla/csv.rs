//! The answers of searches as `sla.csv`.

use super::{Row, rows};
use crate::report::rows::with_combo;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_plan::ids::SearchId;
use vsweep_plan::plan::{Params, show};
use vsweep_record::journal::State;
use vsweep_strategy::search::Basis;

/// `sla.csv`: a row for each server config, load and target; `None` where no search has begun.
pub fn to_csv(state: &State) -> Option<Vec<u8>> {
    let rows = rows(state);
    if rows.is_empty() {
        return None;
    }
    let none = Params::new();
    let serve_of = |row: &Row<'_>| {
        let server = row.server;
        server.map_or(none.clone(), |server| {
            with_combo(&server.params, server.combo.as_deref()).into_owned()
        })
    };
    let names = |params: &dyn Fn(&Row<'_>) -> Params| -> Vec<String> {
        let all = rows
            .iter()
            .flat_map(|row| params(row).keys().cloned().collect::<Vec<_>>());
        all.unique().collect()
    };
    // Which combination a load is, its runs say.
    let runs = state
        .runs()
        .filter_map(|run| Some((run.search.as_ref()?, run.combo.as_deref()?)));
    let combos: BTreeMap<&SearchId, &str> = runs.collect();
    let bench_of = |row: &Row<'_>| {
        let started = &row.record().started;
        with_combo(&started.params, combos.get(&started.search).copied()).into_owned()
    };
    let (serve, bench) = (names(&serve_of), names(&bench_of));
    let title = |side: &str, name: &String, other: &[String]| match other.contains(name) {
        true => format!("{side}.{name}"),
        false => name.clone(),
    };
    let mut header = vec!["server".to_owned()];
    header.extend(serve.iter().map(|name| title("serve", name, &bench)));
    header.extend(bench.iter().map(|name| title("bench", name, &serve)));
    let rest = [
        "target",
        "vary",
        "value",
        "low",
        "high",
        "answer",
        "within",
        "binding",
        "probes",
        "seed",
        "seed_from",
        "notes",
    ];
    header.extend(rest.map(String::from));
    let has_starts = rows.iter().any(|row| row.starts.len() > 1);
    header.extend(has_starts.then(|| "starts".to_owned()));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: &[String]| writer.write_record(record).expect("memory takes every row");
    write(&header);
    for row in &rows {
        let cell = |params: &Params, name: &String| params.get(name).map(show).unwrap_or_default();
        let mut line = vec![row.record().started.server.to_string()];
        line.extend(serve.iter().map(|name| cell(&serve_of(row), name)));
        line.extend(bench.iter().map(|name| cell(&bench_of(row), name)));
        let answer = row.answer();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        line.push(row.target.name.clone());
        line.push(row.record().started.vary.name().to_owned());
        line.push(number(answer.and_then(|answer| answer.found.value())));
        line.push(number(answer.map(|answer| answer.low)));
        line.push(number(answer.map(|answer| answer.high)));
        line.push(row.word().to_owned());
        line.push(number(answer.and_then(|answer| answer.within)));
        line.push(answer.and_then(|answer| answer.binding.clone()).unwrap_or_default());
        line.push(answer.map_or_else(String::new, |answer| answer.probes.to_string()));
        let seed = row.record().started.seed;
        line.push(seed.value.to_string());
        line.push(seed.basis.map_or("", Basis::word).to_owned());
        line.push(row.notes());
        line.extend(has_starts.then(|| row.starts.len().to_string()));
        write(&line);
    }
    Some(writer.into_inner().expect("memory takes every row"))
}
