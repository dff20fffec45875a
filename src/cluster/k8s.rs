//! Kubernetes: the manifest of an Indexed Job for each array, as text. Nothing is applied and nothing asked of a cluster.

use super::Array;
use crate::plan::{K8s, Plan};
use crate::shell::shell_line;
use minijinja::{Environment, Value, context};
use std::collections::BTreeMap;
use std::time::Duration;

/// The Jobs, one after the other.
const TEMPLATE: &str = include_str!("k8s.yaml.jinja");
/// The label that all Jobs of an experiment have, and nothing else.
pub const LABEL: &str = "vsweep/experiment";
/// Indexes that a Job may have.
pub const MOST_INDEXES: usize = 100_000;
/// What a worker needs beyond the time that a server has to stop.
const FAREWELL: Duration = Duration::from_secs(30);

/// What refers to all Jobs of the plan, for `kubectl`: ` -n bench -l vsweep/experiment=night`.
pub fn selector(plan: &Plan) -> String {
    let namespace = plan.k8s.as_ref().and_then(|k8s| k8s.namespace.as_ref());
    let namespace = namespace.map_or(String::new(), |namespace| format!(" -n {namespace}"));
    format!("{namespace} -l {LABEL}={}", label_of(&plan.name))
}

/// A plan's name as the value of a label, which is at most 63 characters and ends as it begins.
fn label_of(name: &str) -> String {
    let name: String = name.chars().take(63).collect();
    name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// The manifest: one Job for each array, and each index of it a `worker`, which the id of a server start follows.
pub fn manifest(arrays: &[Array], plan: &Plan, k8s: &K8s, worker: &str) -> String {
    let job = |array: &Array| {
        let completions = array.groups.len();
        context! {
            name => &*array.name,
            completions,
            parallelism => k8s.at_once.map_or(completions, |at_once| completions.min(at_once as usize)),
            groups => shell_line(&array.groups),
            resources => resources(array, k8s),
        }
    };
    let values = context! {
        jobs => arrays.iter().map(job).collect::<Vec<Value>>(),
        label => LABEL,
        experiment => label_of(&plan.name),
        namespace => k8s.namespace.as_deref(),
        grace => (plan.serve.stop_grace + FAREWELL).as_secs(),
        deadline => k8s.time.map(|time| time.as_secs().max(1)),
        image => &*k8s.image,
        worker,
        secrets => k8s.secrets.clone(),
        mount => &*k8s.mount,
        claim => &*k8s.claim,
    };
    let manifest = Environment::new().render_str(TEMPLATE, values);
    manifest.expect("the template fits its values")
}

/// What a pod asks for, and gets no more of.
fn resources(array: &Array, k8s: &K8s) -> BTreeMap<String, String> {
    let each = array.gpus.max(1);
    let gpus = (array.gpus > 0).then(|| (k8s.gpu.clone(), array.gpus.to_string()));
    let memory = k8s.memory_per_gpu.as_ref();
    let memory = memory.map(|memory| ("memory".to_owned(), times(memory, each)));
    let cpus = k8s
        .cpus_per_gpu
        .map(|cpus| ("cpu".to_owned(), (cpus * each).to_string()));
    [gpus, memory, cpus].into_iter().flatten().collect()
}

/// So many times an amount of memory: twice `1.5Gi` is `3Gi`, and `2e9` twice `1e9`.
fn times(amount: &str, count: u32) -> String {
    let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = amount.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    number.map_or_else(
        || amount.to_owned(),
        |number| format!("{}{unit}", number * f64::from(count)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_gpus_and_labels_fit() {
        let cases = [("1.5Gi", "3Gi"), ("200G", "400G"), ("1000", "2000"), ("1e9", "2e9")];
        for (amount, twice) in cases {
            assert_eq!(times(amount, 2), twice);
        }
        assert_eq!(label_of(&format!("night.{}", "x".repeat(90))).len(), 63);
        assert_eq!(label_of("night-"), "night");
    }
}
