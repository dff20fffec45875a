//! `--config FILE`: settings from a YAML file. As in vLLM, they come before the other arguments, so the command line wins. A nested table
//! becomes JSON, a list several values, and `false` the negative flag if there is one.

mod yaml;

use super::flags::{Refusal, has_negative};
use serde_json::Value;

/// Returns the arguments after `serve` without `--config FILE`, and with the settings of the file directly after the model.
pub fn expand(args: &[String]) -> Result<Vec<String>, Refusal> {
    let names_a_file = |arg: &String| arg == "--config" || arg.starts_with("--config=");
    let Some(at) = args.iter().position(names_a_file) else {
        return Ok(args.to_vec());
    };
    let (path, after) = match args[at].strip_prefix("--config=") {
        Some(path) => (path, at + 1),
        None => match args.get(at + 1) {
            Some(path) => (path.as_str(), at + 2),
            None => {
                let message = "No config file specified! Please check your command-line arguments.";
                return Err(value_error(message));
            }
        },
    };
    let from_file = arguments(path)?;
    let model = usize::from(args.first().is_some_and(|arg| !arg.starts_with('-')));
    let (before, rest) = (&args[model.min(at)..at], &args[after..]);
    if rest.iter().any(names_a_file) {
        return Err(refusal("AssertionError: More than one config file specified!".into()));
    }
    if model == 0 && !from_file.iter().any(|arg| arg == "--model") {
        return Err(value_error(
            "No model specified! Please specify model either as a positional argument or in a config file.",
        ));
    }
    Ok([&args[..model], &from_file, before, rest].concat())
}

fn refusal(exception: String) -> Refusal {
    Refusal::Exception("vllm/utils/argparse_utils.py", exception)
}

fn value_error(message: &str) -> Refusal {
    refusal(format!("ValueError: {message}"))
}

fn arguments(path: &str) -> Result<Vec<String>, Refusal> {
    let extension = path.rsplit('.').next().unwrap_or_default();
    if !["yaml", "yml"].contains(&extension) {
        return Err(value_error(&format!(
            "Config file must be of a yaml/yml type. {extension} supplied"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => "FileNotFoundError: [Errno 2] No such file or directory".to_string(),
            _ => format!("OSError: {error}"),
        };
        refusal(format!("{kind}: '{path}'"))
    })?;
    let wrong = |why: String| refusal(format!("yaml.scanner.ScannerError: {why}\n  in \"{path}\""));
    match yaml::read(&text).map_err(wrong)? {
        Value::Object(settings) => Ok(settings.iter().flat_map(|(key, value)| words(key, value)).collect()),
        Value::Null => Ok(Vec::new()),
        _ => Err(refusal(
            "AttributeError: the configuration is not a table of settings".into(),
        )),
    }
}

fn words(key: &str, value: &Value) -> Vec<String> {
    let flag = format!("--{key}");
    match value {
        Value::Bool(true) => vec![flag],
        Value::Bool(false) if has_negative(key) => vec![format!("--no-{key}")],
        Value::Bool(false) => Vec::new(),
        Value::Array(list) if list.is_empty() => Vec::new(),
        Value::Array(list) => std::iter::once(flag).chain(list.iter().map(plain)).collect(),
        other => vec![flag, plain(other)],
    }
}

/// Formats a scalar as Python's `str` does, and a table as `json.dumps` does.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(yaml: &str, args: &str) -> Result<Vec<String>, Refusal> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("c.yaml");
        std::fs::write(&file, yaml).expect("written");
        let args = args.replace("FILE", file.to_str().expect("plain"));
        expand(&shell_words::split(&args).expect("quoted well"))
    }

    #[test]
    fn the_file_comes_before_the_command_line() {
        let yaml = "port: 12323\ntensor-parallel-size: 4\nenforce-eager: true\nenable-prefix-caching: false\n\
                    disable-log-stats: false\nserved-model-name: [a, b, yes]\ncompilation-config:\n  mode: 3\n";
        let words = expanded(yaml, "m --max-num-seqs 8 --config FILE -tp 2").expect("readable");
        let wanted = "m --port 12323 --tensor-parallel-size 4 --enforce-eager --no-enable-prefix-caching \
                      --served-model-name a b True --compilation-config '{\"mode\":3}' --max-num-seqs 8 -tp 2";
        assert_eq!(words, shell_words::split(wanted).expect("quoted well"));
        let words = expanded("model: m\n", "--config=FILE").expect("readable");
        assert_eq!(words, ["--model", "m"]);
    }

    #[test]
    fn what_vllm_refuses_is_refused_in_its_words() {
        let refusal = |yaml: &str, args: &str| match expanded(yaml, args) {
            Err(Refusal::Exception(_, text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(refusal("port: 1", "--config FILE").contains("No model specified!"));
        assert!(refusal("port: 1", "m --config").contains("No config file specified!"));
        assert!(refusal("port: 1", "m --config x.toml").contains("must be of a yaml/yml type. toml supplied"));
        assert!(refusal("port: 1", "m --config /none/x.yaml").starts_with("FileNotFoundError"));
        assert!(refusal("a: [1", "m --config FILE").contains("ScannerError"));
        assert!(refusal("port: 1", "m --config FILE --config FILE").contains("More than one"));
    }
}
