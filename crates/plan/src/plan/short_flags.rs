//! Short flags of `vllm serve` and the parameters they stand for. A plan names parameters by their long flags only, so
//! that one setting has one name in tables and one flag in command lines.

use super::problem::{Found, Problem};
use super::{Plan, Program, ServeCommand, Side, Target};

/// Short flags with the parameters they stand for.
pub const SHORT_FLAGS: [(&str, &str); 24] = [
    ("-p", "port"),
    ("-tp", "tensor_parallel_size"),
    ("-pp", "pipeline_parallel_size"),
    ("-dp", "data_parallel_size"),
    ("-dcp", "decode_context_parallel_size"),
    ("-pcp", "prefill_context_parallel_size"),
    ("-dpn", "data_parallel_rank"),
    ("-dpr", "data_parallel_start_rank"),
    ("-dpl", "data_parallel_size_local"),
    ("-dpa", "data_parallel_address"),
    ("-dpp", "data_parallel_rpc_port"),
    ("-dpb", "data_parallel_backend"),
    ("-dph", "data_parallel_hybrid_lb"),
    ("-dpe", "data_parallel_external_lb"),
    ("-dpm", "data_parallel_multi_port_external_lb"),
    ("-ep", "enable_expert_parallel"),
    ("-q", "quantization"),
    ("-n", "nnodes"),
    ("-r", "node_rank"),
    ("-asc", "api_server_count"),
    ("-sc", "speculative_config"),
    ("-dc", "diffusion_config"),
    ("-cc", "compilation_config"),
    ("-ac", "attention_config"),
];

/// The parameter that a short flag, with or without its dash, stands for.
pub(super) fn long_name(short: &str) -> Option<&'static str> {
    let short = short.trim_start_matches('-');
    let known = SHORT_FLAGS
        .iter()
        .find(|(flag, _)| flag.trim_start_matches('-') == short);
    known.map(|(_, name)| *name)
}

/// Refuses short names of parameters where the server is vLLM, which has no long flag of that name; what they mean to
/// other servers is not known.
pub(super) fn check(plan: &Plan, found: &mut Found) {
    let Target::Launch(command) = &plan.serve.target else {
        return;
    };
    if ServeCommand::of(command).program() == Program::Other {
        return;
    }
    let mut refuse = |name: &str, span| {
        if let Some(long) = long_name(name).filter(|_| !name.starts_with('-')) {
            let message = format!("`{name}` is a short form; as a parameter it would become the flag --{name}");
            found.add(Problem::new(span, message, format!("write `{long}`")));
        }
    };
    for (name, _) in plan.params(Side::Serve) {
        refuse(name, plan.origin.key_span(&["serve", "params", name]));
    }
    for (position, combo) in plan.combos(Side::Serve).iter().enumerate() {
        let place = ["serve", "combos", &position.to_string()];
        for name in combo.params.keys() {
            let span = match plan.origin.has(&place) {
                true => plan.origin.key_span(&[place[0], place[1], place[2], name]),
                false => plan.origin.key_span(&["serve", "params_file"]),
            };
            refuse(name, span);
        }
    }
}
