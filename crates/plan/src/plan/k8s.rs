//! The `[k8s]` table: what the pods of a Kubernetes cluster are for each server start.

use schemars::JsonSchema;
use std::time::Duration;

/// What `vsweep submit --k8s` writes into the manifest of the Kubernetes Jobs that work on the plan; other commands do not read it. A pod
/// asks for as many GPUs as its server's flags say, or `exec.gpus`. See docs/cluster.md.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "K8sTable", deny_unknown_fields)]
pub struct K8s {
    /// Container image in which vsweep and its servers are installed, such as `registry.example.com/vsweep:1`.
    pub image: String,
    /// Name of the PersistentVolumeClaim that holds the results. All pods mount it at once, so it must be `ReadWriteMany`.
    pub claim: String,
    /// Where the pods, and the machine that submits, see that volume. The results directory is below it. Default: `/results`.
    #[schemars(with = "Option<String>")]
    pub mount: String,
    /// The namespace. Default: that of whoever applies the manifest.
    pub namespace: Option<String>,
    /// The longest that one server start with all its runs may take, e.g. `4h`. Default: no limit.
    #[schemars(with = "Option<String>")]
    pub time: Option<Duration>,
    /// What the cluster calls a GPU. Default: `nvidia.com/gpu`.
    #[schemars(with = "Option<String>")]
    pub gpu: String,
    /// Memory for each GPU, such as `200Gi`; for the pod itself where it has no GPU.
    pub memory_per_gpu: Option<String>,
    /// Cores for each GPU; for the pod itself where it has no GPU.
    #[schemars(range(min = 1, max = 1024))]
    pub cpus_per_gpu: Option<u32>,
    /// How many server starts of the same size may run at once. Default: all of them.
    #[schemars(range(min = 1, max = 100_000))]
    pub at_once: Option<u32>,
    /// Names of Secrets whose keys become environment variables of the pods: those that `${NAME}` in the plan refers to.
    #[schemars(with = "Option<Vec<String>>")]
    pub secrets: Vec<String>,
}

/// Whether Kubernetes takes a text as the name of most things: of a claim or a secret, parts with dots between them.
pub fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Whether it takes it as a name without dots, such as that of a namespace.
pub fn is_label(text: &str) -> bool {
    let proper = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len()) && text.chars().all(proper) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether it is an amount of memory: `200Gi`, `1.5T`, `1e9`.
pub fn is_memory(text: &str) -> bool {
    const UNITS: [&str; 12] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E"];
    let number = UNITS.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text);
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.') || number == text;
    is_plain
        && !number.starts_with(['+', '-'])
        && number
            .parse::<f64>()
            .is_ok_and(|amount| amount.is_finite() && amount > 0.0)
}

/// Whether it names a kind of resource: `nvidia.com/gpu`.
pub fn is_resource(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_name(domain) && is_resource_part(name),
        None => false,
    }
}

fn is_resource_part(text: &str) -> bool {
    let proper = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len()) && text.chars().all(proper) && text.starts_with(ends) && text.ends_with(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_amounts_are_those_of_kubernetes() {
        for good in ["200Gi", "1.5T", "1000", "1e9"] {
            assert!(is_memory(good), "{good}");
        }
        for bad in ["200GB", "Gi", "", "-1Gi", "1 Gi", "inf", "0", "1e9Gi", "nan"] {
            assert!(!is_memory(bad), "{bad}");
        }
        assert!(is_resource("nvidia.com/gpu") && is_resource("amd.com/gpu") && is_resource("nvidia.com/mig-1g.10gb"));
        assert!(!is_resource("gpu") && !is_resource("nvidia.com/") && !is_resource("a b/c"));
        assert!(
            is_name("hf-token") && is_name("a.b") && !is_name("A") && !is_name("a_b") && !is_name("") && !is_name("-a")
        );
    }
}
