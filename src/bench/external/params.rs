//! Reads the load from the command line of `vllm bench serve`, without running it. The program may behave differently.

use crate::bench::native::settings::TABLE;
use crate::bench::params::Takes;
use crate::plan::{Params, ServeCommand};
use serde_json::Value;

/// The parameters of a `vllm bench serve` command line that the native benchmark knows too, others left out; `None` for
/// another program.
pub fn params_of(argv: &[String]) -> Option<Params> {
    if !argv.windows(2).any(|pair| pair[0] == "bench" && pair[1] == "serve") {
        return None;
    }
    let command = ServeCommand::of(argv);
    let given = TABLE.all().filter(|(_, param)| command.has(param.name));
    let params = given.filter_map(|(_, param)| {
        let values = command.values(param.name);
        let value = match param.takes {
            Takes::Nothing => Value::Bool(true),
            Takes::Texts => values.into_iter().collect(),
            _ => (*values.first()?).into(),
        };
        Some((param.name.to_owned(), value))
    });
    Some(params.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::native::mean_lengths;

    fn lengths(command: &str) -> Option<(f64, f64)> {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        mean_lengths(&params_of(&argv)?)
    }

    #[test]
    fn a_foreign_command_line_tells_its_lengths_where_they_are_random() {
        let command =
            "vllm bench serve --dataset-name random --random-input-len=300 --random_output_len 40 --ignore-eos";
        assert_eq!(lengths(command), Some((300.0, 40.0)));
        assert_eq!(lengths("python bench.py --random-input-len 300"), None);
        assert_eq!(
            lengths("vllm bench serve --dataset-name sharegpt --dataset-path x.json"),
            None
        );
    }
}
