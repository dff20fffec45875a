//! The answers of searches as `sla.csv`.

use super::{notes, server, word};
use crate::report::files;
use crate::report::rows::with_combo;
use itertools::Itertools;
use std::collections::BTreeMap;
use vsweep_plan::ids::SearchId;
use vsweep_plan::plan::{Params, show};
use vsweep_record::journal::State;
use vsweep_record::table::{Sought, sought};
use vsweep_strategy::search::Basis;

/// `sla.csv`: a row for each server config, load and target; `None` where no search has begun.
pub fn to_csv(state: &State) -> Option<Vec<u8>> {
    let all = sought(state);
    // Which combination a load is, its runs say.
    let runs = state
        .runs()
        .filter_map(|run| Some((run.search.as_ref()?, run.combo.as_deref()?)));
    let combos: BTreeMap<&SearchId, &str> = runs.collect();
    let sides = |sought: &Sought<'_>| -> [Params; 2] {
        let started = &sought.record().started;
        let serve = server(sought).map(|server| with_combo(&server.params, server.combo.as_deref()).into_owned());
        let bench = with_combo(&started.params, combos.get(&started.search).copied());
        [serve.unwrap_or_default(), bench.into_owned()]
    };
    let params = all.iter().map(sides).collect_vec();
    let names = [0, 1].map(|side| {
        params
            .iter()
            .flat_map(|sides| sides[side].keys())
            .unique()
            .collect_vec()
    });
    let title = |side: usize, name: &String| match names[1 - side].contains(&name) {
        true => format!("{}.{name}", ["serve", "bench"][side]),
        false => name.clone(),
    };
    let has_starts = all.iter().any(|sought| sought.starts.len() > 1);
    let row = |(sought, params): (&Sought<'_>, &[Params; 2])| {
        let (started, answer) = (&sought.record().started, sought.answer());
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let mut row = vec![("server".to_owned(), started.server.to_string())];
        for side in [0, 1] {
            let cell = |name: &String| params[side].get(name).map(show).unwrap_or_default();
            row.extend(names[side].iter().map(|name| (title(side, name), cell(name))));
        }
        let found = [
            ("target", sought.target.name.clone()),
            ("vary", started.vary.name().to_owned()),
            ("value", number(answer.and_then(|answer| answer.found.value()))),
            ("low", number(answer.map(|answer| answer.low))),
            ("high", number(answer.map(|answer| answer.high))),
            ("answer", word(sought).to_owned()),
            ("within", number(answer.and_then(|answer| answer.within))),
            (
                "binding",
                answer.and_then(|answer| answer.binding.clone()).unwrap_or_default(),
            ),
            (
                "probes",
                answer.map_or_else(String::new, |answer| answer.probes.to_string()),
            ),
            ("seed", started.seed.value.to_string()),
            ("seed_from", started.seed.basis.map_or("", Basis::word).to_owned()),
            ("notes", notes(sought)),
        ];
        row.extend(found.map(|(name, cell)| (name.to_owned(), cell)));
        row.extend(has_starts.then(|| ("starts".to_owned(), sought.starts.len().to_string())));
        row
    };
    files::to_csv(&all.iter().zip(&params).map(row).collect_vec())
}
