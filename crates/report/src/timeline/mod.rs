//! The timeline of one run's requests as a web page of its own: a row for each request, with its time to first token and then its
//! inter-token latencies by colour. Like the report it contains everything it needs. Only a run that saved detailed samples has a timeline.

use super::html::text::{self, embed_json, safe};
use super::rows::read_content;
use itertools::Itertools;
use minijinja::context;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use vsweep_base::error::{Error, Result};
use vsweep_base::files::write_atomic;
use vsweep_plan::matrix;
use vsweep_record::journal::{Directory, RunRecord, State};

const PAGE: &str = include_str!("page.html.jinja");
const OWN_STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] = [
    include_str!("../html/script/dom.js"),
    include_str!("../html/script/scale.js"),
    include_str!("page.js"),
];

/// Writes the timeline of one run and returns its path. `wanted` names the run as `POINT/K`: the id of a point or its beginning, and the
/// number of the run.
pub fn write_timeline(directory: &Directory, state: &State, wanted: &str) -> Result<PathBuf> {
    let run = find(state, wanted).map_err(Error::Usage)?;
    let unusable = |what: String| Error::Usage(format!("run {}/{} {what}", run.point, run.number()));
    if run.file.is_none() {
        return Err(unusable(
            "was not measured, so it has no timeline; choose another".into(),
        ));
    }
    let content = read_content(directory.root(), run).map_err(Error::Fatal)?;
    let requests = RequestSamples::read(&content).map_err(unusable)?;
    let server = state.servers.get(&run.server);
    let server = server.map_or(String::new(), |server| matrix::settings_text(&server.params));
    let settings = [server, matrix::settings_text(&run.params)];
    let settings = settings.iter().filter(|text| !text.is_empty()).join(" · ");
    let path = directory.timeline(&run.point, &run.number());
    if let Some(folder) = path.parent() {
        directory.create_folder(folder)?;
    }
    let title = format!("{}: run {} of point {}", directory.name(), run.number(), run.point);
    write_atomic(&path, requests.render(&title, &settings).as_bytes())?;
    Ok(path)
}

fn find<'s>(state: &'s State, wanted: &str) -> Result<&'s RunRecord, String> {
    let refuse = |what: &str| {
        let some = state.runs().take(3);
        let some = some.map(|run| format!("{}/{}", run.point, run.number())).join(" or ");
        format!("`{wanted}` {what}; write POINT/K, as in {some} (see summary.csv)")
    };
    let parts = wanted.split_once('/').filter(|(point, _)| !point.is_empty());
    let (point, number) = parts.ok_or_else(|| refuse("names no run"))?;
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    if !number.split('.').all(is_number) {
        return Err(refuse("has no number of a run"));
    }
    let mut fitting = state
        .runs()
        .filter(|run| run.number() == number && run.point.0.starts_with(point));
    let found = fitting.next().ok_or_else(|| refuse("is not a run here"))?;
    match fitting.next() {
        None => Ok(found),
        Some(_) => Err(refuse("fits several points")),
    }
}

/// The requests of a run, in arrays with one entry for each request. The keys are those of `vllm bench serve --save-detailed`. Times are in
/// seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RequestSamples {
    start_times: Vec<f64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    errors: Vec<String>,
}

impl RequestSamples {
    /// Reads the result file of a run. The error completes a sentence whose subject is the run.
    pub fn read(json: &[u8]) -> Result<RequestSamples, String> {
        let requests: RequestSamples =
            serde_json::from_slice(json).map_err(|error| format!("has no samples that can be read: {error}"))?;
        let count = requests.start_times.len();
        if count == 0 || requests.itls.is_empty() {
            let remedy = "set save_detailed = true in [bench.params] and measure it again";
            return Err(format!("has no samples of its requests; {remedy}"));
        }
        if requests.ttfts.len() != count || requests.itls.len() != count {
            return Err(format!(
                "is inconsistent: {count} start times, {} first tokens and {} lists of gaps; measure it again",
                requests.ttfts.len(),
                requests.itls.len()
            ));
        }
        Ok(requests)
    }

    /// Returns a list for each request: its start after the earliest start, its TTFT and its gaps, all in microseconds, then its numbers of
    /// tokens and its error.
    fn to_json(&self) -> Value {
        let first = self.start_times.iter().copied().reduce(f64::min).unwrap_or_default();
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let request = |i: usize| {
            let gaps: Vec<i64> = self.itls[i].iter().map(|gap| micros(*gap)).collect();
            let error = self.errors.get(i).filter(|error| !error.is_empty());
            let tokens = [self.input_lens.get(i), self.output_lens.get(i)];
            json!([
                micros(self.start_times[i] - first),
                micros(self.ttfts[i]),
                gaps,
                tokens,
                error
            ])
        };
        json!({"requests": (0..self.start_times.len()).map(request).collect::<Vec<_>>()})
    }

    /// Returns the page.
    pub fn render(&self, title: &str, settings: &str) -> String {
        text::render(
            PAGE,
            context! {
                title,
                own_style => safe(OWN_STYLE),
                settings,
                data => safe(embed_json(&self.to_json().to_string())),
                script => safe(SCRIPT.concat()),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_base::cause::Cause;
    use vsweep_base::ids::{PointId, ServerId};
    use vsweep_record::journal::{Event, FIRST_SLOT, GroupGivenUp, Untried};

    fn state(points: &[&str]) -> State {
        let untried = |point: &&str| Untried {
            point: PointId((*point).into()),
            runs: vec![0],
            name: String::new(),
            params: Default::default(),
            combo: None,
            search: None,
        };
        let mut state = State::default();
        state.apply_hypothetical(Event::GroupGivenUp(Box::new(GroupGivenUp {
            server: ServerId("s".into()),
            slot: FIRST_SLOT,
            cause: Cause::OomAtLoad,
            detail: String::new(),
            ruled_out: None,
            blamed: None,
            common: Default::default(),
            points: points.iter().map(untried).collect(),
            unlisted: Vec::new(),
            searches: Vec::new(),
        })));
        state
    }

    #[test]
    fn a_run_is_named_by_the_beginning_of_its_point() {
        let state = state(&["ab12", "ab34", "cd56"]);
        assert_eq!(find(&state, "c/0").map(|run| &*run.point.0), Ok("cd56"));
        for (wanted, why) in [
            ("ab/0", "fits several points"),
            ("cd/1", "is not a run here"),
            ("cd56", "names no run"),
            ("/0", "names no run"),
            ("cd/x", "has no number"),
        ] {
            let refusal = find(&state, wanted).expect_err(wanted);
            assert!(refusal.contains(why) && refusal.contains("ab12/0"), "{refusal}");
        }
    }

    #[test]
    fn times_are_whole_microseconds_from_the_first_request_on() {
        let file = json!({"start_times": [100.5, 100.25], "ttfts": [0.0, 0.0125], "itls": [[], [0.001, 0.002]],
            "input_lens": [7, 8], "errors": ["HTTP 503", ""], "duration": 3});
        let requests = RequestSamples::read(file.to_string().as_bytes()).expect("samples");
        let expected = json!([
            [250_000, 0, [], [7, null], "HTTP 503"],
            [0, 12_500, [1000, 2000], [8, null], null]
        ]);
        assert_eq!(requests.to_json()["requests"], expected);
    }

    #[test]
    fn a_file_without_samples_says_what_to_do() {
        let refusal = |file: Value| RequestSamples::read(file.to_string().as_bytes()).expect_err("no samples");
        assert!(refusal(json!({"latencies": [1.0]})).contains("save_detailed"));
        let torn = json!({"start_times": [1.0], "ttfts": [1.0, 2.0], "itls": [[]]});
        assert!(refusal(torn).contains("inconsistent"));
        assert!(
            refusal(json!({"ttfts": "x"})).contains("cannot") || refusal(json!({"ttfts": "x"})).contains("can be read")
        );
    }
}
