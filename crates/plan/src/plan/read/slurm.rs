//! The `[slurm]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::{Kind, Node};
use crate::plan::{Slurm, schema};
use std::time::Duration;

const MOST_CPUS: u32 = 1024;
const MOST_TASKS: u32 = 100_000;

/// Whether it is an amount of memory: `200G`, `65536` (MiB).
fn is_memory(text: &str) -> bool {
    let number = text.trim_end_matches(['B', 'b']);
    let number = number.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']);
    number.unwrap_or(text).parse::<u64>().is_ok_and(|amount| amount > 0)
}

impl Reader<'_> {
    /// Reads the table, if there is one.
    pub(super) fn slurm(&mut self, node: Option<&Node>) -> Slurm {
        let Some(mut fields) = node.and_then(|node| Fields::open::<schema::SlurmTable>(node, "slurm", &mut self.found))
        else {
            return Slurm::default();
        };
        let mut text = |key: &'static str| {
            let text = fields
                .get(key)
                .and_then(|node| self.text(node, &format!("slurm.{key}")));
            text.filter(|text| !text.is_empty())
        };
        let mut slurm = Slurm {
            partition: text("partition"),
            account: text("account"),
            gres: text("gres"),
            memory_per_gpu: text("memory_per_gpu"),
            image: text("image"),
            ..Slurm::default()
        };
        if let (Some(node), Some(memory)) = (fields.get("memory_per_gpu"), &slurm.memory_per_gpu)
            && !is_memory(memory)
        {
            let message = format!("`slurm.memory_per_gpu` cannot be `{memory}`");
            let remedy = "write an amount as Slurm does, such as 200G";
            self.object(node.span, message, remedy);
        }
        if let Some(node) = fields.get("time") {
            slurm.time = Some(self.duration(Some(node), "slurm.time", Duration::ZERO));
        }
        if let Some(node) = fields.get("cpus_per_gpu") {
            slurm.cpus_per_gpu = self.whole(node, "slurm.cpus_per_gpu", 1..=MOST_CPUS);
        }
        if let Some(node) = fields.get("at_once") {
            slurm.at_once = self.whole(node, "slurm.at_once", 1..=MOST_TASKS);
        }
        if let Some(node) = fields.get("mounts") {
            slurm.mounts = self.texts(node, "slurm.mounts");
            if slurm.image.is_none() {
                let remedy = "add the image, or remove the mounts";
                let message = "`slurm.mounts` are of a container, and there is no `slurm.image`";
                self.object(node.span, message, remedy);
            }
        }
        if let Some(node) = fields.get("setup") {
            let lines = self.list(
                node,
                "slurm.setup",
                "write a list of lines, such as [\"module load cuda\"]",
            );
            for line in lines.unwrap_or_default() {
                match &line.kind {
                    // The shell of the node expands its variables.
                    Kind::Text(line) => {
                        self.secrets.note_text(line);
                        slurm.setup.push(line.clone());
                    }
                    _ => self.wrong_kind(line, "slurm.setup", "a string"),
                }
            }
        }
        fields.close(&mut self.found);
        slurm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_slurm() {
        assert!(["200G", "65536", "1t", "200GB"].into_iter().all(is_memory));
        assert!(
            !["lots", "", "G", "0G", "-1G", "1.5T", "200 G", "200Gi"]
                .into_iter()
                .any(is_memory)
        );
    }
}
