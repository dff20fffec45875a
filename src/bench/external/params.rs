//! What the command line of `vllm bench serve` says of the load, without running it. Whether the program does as told is not
//! known here.

use crate::bench::native::settings::TABLE;
use crate::bench::params::Takes;
use crate::plan::Params;
use serde_json::Value;

/// The parameters of a `vllm bench serve` command line that the native benchmark knows too, others left out; `None` for
/// another program.
pub fn params_of(argv: &[String]) -> Option<Params> {
    let place = argv
        .windows(2)
        .position(|pair| pair[0] == "bench" && pair[1] == "serve")?;
    let mut params = Params::new();
    let mut words = argv[place + 2..].iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, attached) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let Some(flag) = TABLE.find(name) else { continue };
        let value = match (flag.takes, attached) {
            (Takes::Nothing, _) => Value::Bool(true),
            (Takes::Texts, None) => {
                let mut texts = Vec::new();
                while let Some(text) = words.next_if(|word| !word.starts_with("--")) {
                    texts.push(Value::from(text.as_str()));
                }
                Value::Array(texts)
            }
            (_, Some(value)) => value.into(),
            (_, None) => match words.next() {
                Some(value) => value.as_str().into(),
                None => continue,
            },
        };
        params.insert(flag.name.to_owned(), value);
    }
    Some(params)
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
        let told = "vllm bench serve --dataset-name random --random-input-len=300 --random_output_len 40 --ignore-eos";
        assert_eq!(lengths(told), Some((300.0, 40.0)));
        assert_eq!(lengths("python bench.py --random-input-len 300"), None);
        assert_eq!(
            lengths("vllm bench serve --dataset-name sharegpt --dataset-path x.json"),
            None
        );
    }
}
