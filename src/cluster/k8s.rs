//! Kubernetes: the manifest of an Indexed Job for each array, as text. Nothing is applied and nothing asked of a cluster.

use super::Array;
use crate::error::{Error, Result};
use crate::plan::{K8s, Plan};
use crate::shell::shell_line;
use serde_json::{Value, json};
use std::time::Duration;

/// The label that all Jobs of an experiment have, and nothing else.
pub const LABEL: &str = "vsweep/experiment";
/// Tries of one server start that ended for no fault of the cluster.
const TRIES: u32 = 3;
/// Indexes that a Job may have.
pub const MOST_INDEXES: usize = 100_000;
/// What a worker needs beyond the time that a server has to stop.
const FAREWELL: Duration = Duration::from_secs(30);
/// Exit codes of a worker after which another try would end the same.
const HOPELESS: [u32; 2] = [1, 2];

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
pub fn manifest(arrays: &[Array], plan: &Plan, k8s: &K8s, worker: &str) -> Result<String> {
    let jobs: Vec<Value> = arrays.iter().map(|array| job(array, plan, k8s, worker)).collect();
    serde_saphyr::to_string_multiple(&jobs)
        .map_err(|error| Error::Fatal(format!("the manifest cannot be written: {error}")))
}

fn job(array: &Array, plan: &Plan, k8s: &K8s, worker: &str) -> Value {
    let labels = json!({LABEL: label_of(&plan.name)});
    let many = array.groups.len();
    let mut pod = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": (plan.serve.stop_grace + FAREWELL).as_secs(),
        "containers": [container(array, k8s, worker)],
        "volumes": [
            {"name": "results", "persistentVolumeClaim": {"claimName": k8s.claim}},
            // Workers of one server talk through shared memory, of which a container has next to none.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    });
    if let Some(time) = k8s.time {
        pod["activeDeadlineSeconds"] = time.as_secs().max(1).into();
    }
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": array.name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": many,
            "parallelism": k8s.at_once.map_or(many, |at_once| many.min(at_once as usize)),
            "backoffLimitPerIndex": TRIES,
            "maxFailedIndexes": many,
            // A pod that does not answer may live on, and would share its server start with its replacement.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailIndex", "onExitCodes": {"containerName": "worker", "operator": "In", "values": HOPELESS}},
            ]},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    if let Some(namespace) = &k8s.namespace {
        job["metadata"]["namespace"] = namespace.as_str().into();
    }
    job
}

fn container(array: &Array, k8s: &K8s, worker: &str) -> Value {
    // A plain shell has no arrays.
    let script = format!(
        "set -- {}\nshift \"$JOB_COMPLETION_INDEX\"\nexec vsweep {worker} \"$1\"\n",
        shell_line(&array.groups)
    );
    let mut limits = json!({});
    if array.gpus > 0 {
        limits[&k8s.gpu] = array.gpus.to_string().into();
    }
    let each = array.gpus.max(1);
    if let Some(memory) = &k8s.memory_per_gpu {
        limits["memory"] = times(memory, each).into();
    }
    if let Some(cpus) = k8s.cpus_per_gpu {
        limits["cpu"] = (cpus * each).to_string().into();
    }
    let secrets = k8s.secrets.iter().map(|name| json!({"secretRef": {"name": name}}));
    json!({
        "name": "worker",
        "image": k8s.image,
        "command": ["sh", "-c", script],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envFrom": secrets.collect::<Vec<Value>>(),
        // With equal requests a pod gets whole cores where the cluster gives them, and is evicted last.
        "resources": {"limits": limits, "requests": limits},
        "volumeMounts": [
            {"name": "results", "mountPath": k8s.mount},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    })
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
