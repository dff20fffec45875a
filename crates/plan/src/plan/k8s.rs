//! The `[k8s]` table: what the pods of a Kubernetes cluster are for each server start.

use super::{FromNode, Node, Reader, has_form, table};
use std::time::Duration;

table! {
    /// What `vsweep submit --k8s` writes into the manifest of the Kubernetes Jobs that run the plan; other commands ignore it. A pod
    /// requests as many GPUs as its server's flags need, or `exec.gpus`. See docs/cluster.md.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct K8s("K8sTable", "k8s.") {
        /// Container image in which vsweep and its servers are installed, such as `registry.example.com/vsweep:1`.
        pub image: String = text(r"\S+", "write an image, such as registry.example.com/vsweep:1").required(
            "[k8s] has no `image`",
            "add the image that has vsweep and its servers, such as image = \"registry.example.com/vsweep:1\"",
        ),
        /// Name of the PersistentVolumeClaim that holds the results. All pods mount it at the same time, so it must be `ReadWriteMany`.
        pub claim: String = text(NAME, NAME_REMEDY).required(
            "[k8s] has no `claim`",
            "add the PersistentVolumeClaim that holds the results, such as claim = \"results\"",
        ),
        /// Path of that volume in the pods and on the submitting machine. The results directory is below it. Default: `/results`.
        pub mount: String = text("/[^:]+", "write an absolute path without `:`, such as /results").or("/results"),
        /// The namespace. Default: that of whoever applies the manifest.
        pub namespace: Option<String> = text(LABEL, "write its name: lower-case letters, digits and `-`"),
        /// Time limit of one server start with all its runs, e.g. `4h`. Default: no limit.
        pub time: Option<Duration>,
        /// The cluster's name for a GPU. Default: `nvidia.com/gpu`.
        pub gpu: String = text(RESOURCE, "write a resource with its domain, such as nvidia.com/gpu").or("nvidia.com/gpu"),
        /// Memory for each GPU, such as `200Gi`; for the pod itself if it has no GPU.
        pub memory_per_gpu: Option<String> = text(MEMORY, "write an amount, such as 200Gi or 64G"),
        /// Cores for each GPU; for the pod itself if it has no GPU.
        pub cpus_per_gpu: Option<u32> = whole(1..=1024),
        /// How many server starts of the same size may run at once. Default: all of them.
        pub at_once: Option<u32> = whole(1..=100_000),
        /// Names of Secrets whose keys become environment variables of the pods, for `${NAME}` in the plan.
        pub secrets: Vec<String> = by::<Vec<String>, _>(secrets),
    }
    then K8s::check
}

const NAME_REMEDY: &str = "write its name: lower-case letters, digits, `-` and `.`";

/// What Kubernetes takes as the name of most things: of a claim or a secret, parts with dots between them.
const NAME: &str = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*";
/// A name without dots, such as that of a namespace.
const LABEL: &str = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?";
/// A kind of resource with its domain: `nvidia.com/gpu`.
const RESOURCE: &str =
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?";
/// An amount of memory above 0: `200Gi`, `1.5T`, `1e9`.
const MEMORY: &str = r"0*([1-9][0-9]*\.?[0-9]*|\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[kMGTPE]|[eE][-+]?[0-9]+)?";

impl K8s {
    fn check(&mut self, _: &mut Reader<'_>, _: &Node) {
        self.mount.truncate(self.mount.trim_end_matches('/').len());
    }
}

fn secrets(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<String>> {
    let secrets = Vec::from_node(reader, node, what)?;
    for wrong in secrets.iter().filter(|name: &&String| !has_form(name, NAME)) {
        reader.object(node.span, format!("`{what}` cannot name `{wrong}`"), NAME_REMEDY);
    }
    Some(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_amounts_are_those_of_kubernetes() {
        let is_memory = |text: &str| has_form(text, MEMORY);
        let is_resource = |text: &str| has_form(text, RESOURCE);
        let is_name = |text: &str| has_form(text, NAME);
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
