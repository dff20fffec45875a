//! The `[k8s]` table.

use super::Reader;
use crate::plan::K8s;
use crate::plan::k8s::{is_label, is_memory, is_name, is_resource};
use crate::plan::node::Node;

const IMAGE: &str = "write an image, such as registry.example.com/vsweep:1";
const NAME: &str = "write its name: lower-case letters, digits, `-` and `.`";
const MOUNT: &str = "write an absolute path without `:`, such as /results";
const LABEL: &str = "write its name: lower-case letters, digits and `-`";
const RESOURCE: &str = "write a resource with its domain, such as nvidia.com/gpu";
const ADD_IMAGE: &str =
    "add the image that has vsweep and its servers, such as image = \"registry.example.com/vsweep:1\"";
const ADD_CLAIM: &str = "add the PersistentVolumeClaim that holds the results, such as claim = \"results\"";

impl Reader<'_> {
    /// Reads the table, if there is one.
    pub(super) fn k8s(&mut self, node: Option<&Node>) -> Option<K8s> {
        let whole_table = node?;
        let mut fields = self.open::<K8s>(whole_table, "k8s")?;
        let mut text = |key: &'static str, is_good: fn(&str) -> bool, remedy: &'static str| {
            let (node, text) = (fields.get(key)?, fields.text(self, key)?);
            if !is_good(&text) {
                let message = format!("`k8s.{key}` cannot be `{text}`");
                self.object(node.span, message, remedy);
            }
            Some(text)
        };
        let is_image = |image: &str| !image.is_empty() && !image.contains(char::is_whitespace);
        let is_mount = |path: &str| path.len() > 1 && path.starts_with('/') && !path.contains(':');
        let image = text("image", is_image, IMAGE);
        let claim = text("claim", is_name, NAME);
        let mount = text("mount", is_mount, MOUNT);
        let namespace = text("namespace", is_label, LABEL);
        let gpu = text("gpu", is_resource, RESOURCE);
        let memory_per_gpu = text("memory_per_gpu", is_memory, "write an amount, such as 200Gi or 64G");
        for (key, remedy) in [("image", ADD_IMAGE), ("claim", ADD_CLAIM)] {
            if fields.get(key).is_none() {
                let message = format!("[k8s] has no `{key}`");
                self.object(whole_table.span, message, remedy);
            }
        }
        let time = fields.duration(self, "time");
        let cpus_per_gpu = fields.whole(self, "cpus_per_gpu");
        let at_once = fields.whole(self, "at_once");
        let secrets = fields.texts(self, "secrets");
        for wrong in secrets.iter().filter(|name| !is_name(name)) {
            let message = format!("`k8s.secrets` cannot name `{wrong}`");
            self.object(fields.get("secrets").unwrap_or(whole_table).span, message, NAME);
        }
        fields.close(&mut self.found);
        Some(K8s {
            image: image?,
            claim: claim?,
            mount: mount.map_or_else(|| "/results".to_owned(), |path| path.trim_end_matches('/').to_owned()),
            namespace,
            time,
            gpu: gpu.unwrap_or_else(|| "nvidia.com/gpu".to_owned()),
            memory_per_gpu,
            cpus_per_gpu,
            at_once,
            secrets,
        })
    }
}
