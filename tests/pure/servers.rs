//! Servers that differ in more than flags: command lines and environment variables as axes and in combinations.

use std::path::Path;
use vsweep::matrix::{Matrix, ServerConfig};
use vsweep::plan::{self, Format, World};

fn expand(text: &str) -> Result<Vec<ServerConfig>, String> {
    let plan = plan::parse(text, Format::Toml, Path::new("plan.toml"), &World::empty());
    let plan = plan.map_err(|problems| problems.to_string())?;
    let matrix = Matrix::expand(&plan).map_err(|problems| problems.to_string())?;
    Ok(matrix.servers().collect())
}

fn servers(text: &str) -> Vec<ServerConfig> {
    expand(text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns name, environment and command line of each server.
fn shown(text: &str) -> Vec<String> {
    let shown = servers(text).into_iter().map(|server| {
        let env: String = server
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value} "))
            .collect();
        format!("{}: {env}{}", server.name, server.argv.join(" "))
    });
    shown.collect()
}

#[test]
fn commands_and_variables_are_axes() {
    let text = r#"
        [serve]
        command = { old = "a serve m", new = ["b", "serve", "m"] }
        env = { FIXED = 1, BACKEND = ["X", "Y"] }
        [serve.params]
        seqs = [1, 2]
        [[exclude]]
        "serve.command" = "old"
        "serve.env.BACKEND" = "Y"
        [[exclude]]
        "serve.command" = "new"
        "serve.seqs" = 2
    "#;
    let expected = [
        "command=old, env.BACKEND=X, seqs=1: BACKEND=X FIXED=1 a serve m --seqs 1",
        "command=old, env.BACKEND=X, seqs=2: BACKEND=X FIXED=1 a serve m --seqs 2",
        "command=new, env.BACKEND=X, seqs=1: BACKEND=X FIXED=1 b serve m --seqs 1",
        "command=new, env.BACKEND=Y, seqs=1: BACKEND=Y FIXED=1 b serve m --seqs 1",
    ];
    assert_eq!(shown(text), expected);
}

#[test]
fn a_combination_can_be_a_server_of_another_kind() {
    let text = r#"
        [[serve.combos]]
        name = "vllm"
        command = "vllm serve m"
        max_num_seqs = 8
        [[serve.combos]]
        name = "sglang"
        command = "python -m sglang.launch_server --model-path 'my model'"
        max_running_requests = 8
        env = { A = 1 }
    "#;
    let expected = [
        "vllm: vllm serve m --max-num-seqs 8",
        "sglang: A=1 python -m sglang.launch_server --model-path my model --max-running-requests 8",
    ];
    assert_eq!(shown(text), expected);
    let sglang = &servers(text)[1];
    assert_eq!(sglang.argv[4], "my model", "{:?}", sglang.argv);
}

#[test]
fn a_server_is_the_same_however_its_command_was_chosen() {
    let plain = servers("[serve]\ncommand = 'b serve m'\nenv = { A = 2 }\n");
    let chosen = servers("[serve]\ncommand = { x = 'b serve m' }\nenv = { A = [2] }\n");
    assert_eq!(plain[0].id, chosen[0].id);
}

#[test]
fn what_cannot_be_is_refused_in_one_go() {
    let refused = |text: &str, expected: &[&str]| {
        let problems = expand(text).expect_err(text);
        for part in expected {
            assert!(problems.contains(part), "{part:?} is not in:\n{problems}");
        }
    };
    refused(
        "[serve]\ncommand = {}\nenv = { A = [] }\n[serve.params]\ncommand = 'x'\n\"env.B\" = [1, 2]\n",
        &[
            "`serve.command` names no program",
            "`A` has no values",
            "`command` is not a flag",
            "env = { B = [...] }",
        ],
    );
    refused(
        "[serve]\ncommand = 'x'\nenv = { A = [[1], { b = 2 }] }\n",
        &["a string, a number or a boolean"],
    );
    refused("[serve]\ncommand = { a = 'x serve', b = 'x serve' }\n", &["same"]);
    refused(
        "[serve]\ncommand = { a = 'x serve', b = 'y | z' }\n",
        &["no shell is involved"],
    );
    refused(
        "[serve]\nurl = 'http://h:1'\nenv = { A = [1, 2] }\n",
        &["cannot vary on a server that is already running"],
    );
    refused(
        "[serve]\n[[serve.combos]]\ncommand = 'x serve'\n[[serve.combos]]\nseqs = 2\n",
        &["names no server"],
    );
    refused(
        "[serve]\ncommand = { a = 'x serve', b = 'y serve' }\n[[serve.combos]]\ncommand = 'z serve'\n",
        &["`command` is an axis", "sets it too"],
    );
    refused(
        "[serve]\ncommand = 'x serve'\n[[exclude]]\n\"serve.command\" = 'x'\n",
        &["no parameter is called `serve.command`"],
    );
}
