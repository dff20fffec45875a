//! Names of a run or a server: the full name, then shorter ones, in which most settings are only their values. The display shows the
//! longest name that fits.

use super::line::Names;
use super::wording::run_name;
use crate::texts::terminal::width;
use crate::texts::words::{say_setting, server_name, settings};
use console::{Term, measure_text_width};
use itertools::Itertools;
use vsweep_base::ids::ServerId;
use vsweep_base::printable::printable;
use vsweep_record::journal::State;

impl Names {
    /// The server of a run, its load and its number: `TP 2, seqs 8, 64 in, concurrency 4 #1`, `TP 2/8, 64 in, concurrency 4 #1`, `TP 2/8,
    /// 64 in/4 #1`.
    pub fn of_run(server: &ServerId, load: &str, number: &str, state: &State) -> Names {
        let full = run_name(server, load, number, state);
        let label = label(server, state);
        let of_server = settings(label);
        let of_load = if load == "default" { Vec::new() } else { settings(load) };
        let forms = [
            (join(&of_server, "/"), join(&of_load, ", ")),
            (join(&of_server, "/"), join(&of_load, "/")),
        ];
        let forms = forms.map(|(server, load)| match (server.is_empty(), load.is_empty()) {
            (true, true) => full.clone(),
            (false, false) => format!("{server}, {load} #{number}"),
            _ => format!("{server}{load} #{number}"),
        });
        Names::from([full].into_iter().chain(forms))
    }

    /// A server: `TP 2, seqs 8`, `TP 2/8`.
    pub fn of_server(server: &ServerId, state: &State) -> Names {
        let short = join(&settings(label(server, state)), "/");
        let short = (!short.is_empty()).then_some(short);
        Names::from([server_name(server, state)].into_iter().chain(short))
    }

    fn from(forms: impl Iterator<Item = String>) -> Names {
        Names(forms.map(|form| printable(&form).into_owned()).collect())
    }

    /// The longest form that fits a line of the terminal, else the shortest.
    pub fn longest(&self) -> Option<String> {
        let most = width(&Term::stderr()).map_or(usize::MAX, |width| width.saturating_sub(1));
        let mut forms = self.0.iter();
        let fitting = forms.find(|form| measure_text_width(form) <= most);
        fitting.or(self.0.last()).cloned()
    }

    /// Adds text around each form.
    pub fn within(self, before: &str, after: &str) -> Names {
        let forms = self.0.iter().map(|form| format!("{before}{form}{after}"));
        Names(forms.collect())
    }
}

fn label<'a>(server: &ServerId, state: &'a State) -> &'a str {
    let name = state.servers.get(server).map_or("", |record| &record.name);
    if name == "default" { "" } else { name }
}

/// Names GPUs at the beginning of a line: `GPU 3: `, `GPUs 0,1,2,3: `; empty without GPUs.
pub fn describe_gpus(gpus: &[u32]) -> String {
    match gpus {
        [] => String::new(),
        [gpu] => format!("GPU {gpu}: "),
        gpus => format!("GPUs {}: ", gpus.iter().join(",")),
    }
}

/// Joins settings: `64 in, 32 out`. With the joint `/`, only the first setting and switches have their names: `TP 2/8/no prefix caching`.
fn join(settings: &[(String, &str)], joint: &str) -> String {
    let say = |(place, (name, value)): (usize, &(String, &str))| match *value {
        "true" | "false" => say_setting(name, value),
        value if place > 0 && joint == "/" => value.to_owned(),
        value => say_setting(name, value),
    };
    settings.iter().enumerate().map(say).collect::<Vec<_>>().join(joint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_record::journal::{Event, FIRST_SLOT, GroupBegun, ReadPositions, ServerDescription};

    #[test]
    fn short_names_tell_runs_apart() {
        let server = ServerId("s1".into());
        let mut state = State::default();
        state.apply_hypothetical(Event::GroupBegun(Box::new(GroupBegun {
            proposed: None,
            server: server.clone(),
            slot: FIRST_SLOT,
            config: ServerDescription {
                name: "tensor_parallel_size=8, max_num_seqs=32, enable_prefix_caching=false".into(),
                ..ServerDescription::default()
            },
            seen: ReadPositions::new(),
        })));
        let load = "random_input_len=128, random_output_len=96, max_concurrency=4, num_prompts=8";
        assert_eq!(
            Names::of_run(&server, load, "1", &state).0,
            [
                "TP 8, seqs 32, no prefix caching, 128 in, 96 out, concurrency 4 #1",
                "TP 8/32/no prefix caching, 128 in, 96 out, concurrency 4 #1",
                "TP 8/32/no prefix caching, 128 in/96/4 #1",
            ]
        );
        let names = Names::of_server(&server, &state).within("GPU 3: ", ": ready");
        assert_eq!(names.0[1], "GPU 3: TP 8/32/no prefix caching: ready");
        let unnamed = ServerId("s2".into());
        assert_eq!(Names::of_server(&unnamed, &state).0, ["s2"]);
        assert_eq!(Names::of_run(&unnamed, "default", "0", &state).0[2], "s2 #0");
    }
}
