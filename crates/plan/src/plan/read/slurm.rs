//! The `[slurm]` table.

use super::Reader;
use crate::plan::Slurm;
use crate::plan::node::{Kind, Node};

/// Whether it is an amount of memory: `200G`, `65536` (MiB).
fn is_memory(text: &str) -> bool {
    let number = text.trim_end_matches(['B', 'b']);
    let number = number.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']);
    number.unwrap_or(text).parse::<u64>().is_ok_and(|amount| amount > 0)
}

impl Reader<'_> {
    /// Reads the table, if there is one.
    pub(super) fn slurm(&mut self, node: Option<&Node>) -> Slurm {
        let Some(mut fields) = node.and_then(|node| self.open::<Slurm>(node, "slurm")) else {
            return Slurm::default();
        };
        let mut text = |key| fields.text(self, key).filter(|text| !text.is_empty());
        let mut slurm = Slurm {
            partition: text("partition"),
            account: text("account"),
            gres: text("gres"),
            memory_per_gpu: text("memory_per_gpu"),
            image: text("image"),
            time: fields.duration(self, "time"),
            cpus_per_gpu: fields.whole(self, "cpus_per_gpu"),
            at_once: fields.whole(self, "at_once"),
            mounts: fields.texts(self, "mounts"),
            setup: Vec::new(),
        };
        if let (Some(node), Some(memory)) = (fields.get("memory_per_gpu"), &slurm.memory_per_gpu)
            && !is_memory(memory)
        {
            let message = format!("`slurm.memory_per_gpu` cannot be `{memory}`");
            let remedy = "write an amount as Slurm does, such as 200G";
            self.object(node.span, message, remedy);
        }
        if let (Some(node), None) = (fields.get("mounts"), &slurm.image) {
            let remedy = "add the image, or remove the mounts";
            let message = "`slurm.mounts` are of a container, and there is no `slurm.image`";
            self.object(node.span, message, remedy);
        }
        if let Some(node) = fields.get("setup") {
            let remedy = "write a list of lines, such as [\"module load cuda\"]";
            let lines = self.list(node, "slurm.setup", remedy);
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
