//! The `[slurm]` table: the resources that are requested from Slurm for each server start.

use crate::{Kind, Node, Reader, table};
use regex::Regex;
use std::sync::LazyLock;
use std::time::Duration;

table! {
    /// Resources that `vsweep submit --slurm` requests for each server start, with as many GPUs as its flags need, or `exec.gpus`. Other
    /// options are passed with `--sbatch-arg` (docs/cluster.md).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Slurm("SlurmTable", "slurm.") {
        /// The partition. Default: the site's.
        pub partition: Option<String>,
        /// The account that pays.
        pub account: Option<String>,
        /// Time limit of one server start with all its runs, e.g. `4h`. Default: that of the partition. Shortly before the limit, no
        /// further run begins.
        pub time: Option<Duration>,
        /// The site's name for a GPU, such as `gpu:h100`. Default: `gpu`.
        pub gres: Option<String>,
        /// Memory for each GPU, such as `200G`; for the start itself if it has no GPU. On many sites a start without this key gets the
        /// memory of the whole node.
        pub memory_per_gpu: Option<String> = maybe::<String, _>(memory),
        /// Cores for each GPU; for the start itself if it has no GPU.
        pub cpus_per_gpu: Option<u32> = whole(1..=1024),
        /// Limit of server starts of the same size that run at once. Default: no limit.
        pub at_once: Option<u32> = whole(1..=100_000),
        /// Container image in which vsweep and its servers run, for the pyxis plugin: an image of a registry, or the path of a .sqsh file.
        pub image: Option<String>,
        /// Mounts of the container in addition to the experiment's directory, each as `FROM:TO`.
        pub mounts: Vec<String>,
        /// Lines of shell before vsweep, such as `source /apps/vllm/bin/activate`. They run on the node unchanged.
        pub setup: Vec<String> = by::<Vec<String>, _>(lines),
    }
    then Slurm::check
}

impl Slurm {
    /// Treats an empty text as unset, so that a plan can undo a key of the plan that it extends. Rejects mounts without an image.
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        let texts = [
            &mut self.partition,
            &mut self.account,
            &mut self.gres,
            &mut self.memory_per_gpu,
            &mut self.image,
        ];
        texts
            .into_iter()
            .for_each(|text| drop(text.take_if(|text| text.is_empty())));
        if let (Some(mounts), None) = (node.child("mounts"), &self.image) {
            let remedy = "add the image, or remove the mounts";
            let message = "`slurm.mounts` are of a container, and there is no `slurm.image`";
            reader.object(mounts.span, message, remedy);
        }
    }
}

/// Reads lines of shell. Variables in them are not expanded here, because the shell on the node expands them.
fn lines(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<String>> {
    let remedy = "write a list of lines, such as [\"module load cuda\"]";
    reader.each(node, what, remedy, |reader, line| match &line.kind {
        Kind::Text(text) => {
            reader.secrets.note_text(text);
            Some(text.clone())
        }
        _ => reader.wrong_kind(line, what, "a string"),
    })
}

fn memory(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if !is_amount(&text) {
        let remedy = "write an amount as Slurm does, such as 200G";
        reader.object(node.span, format!("`{what}` cannot be `{text}`"), remedy);
    }
    Some(text)
}

/// Returns true for an amount of memory, such as `200G` or `65536` (MiB), and for an empty text.
fn is_amount(text: &str) -> bool {
    static AMOUNT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^(?:0*[1-9][0-9]*(?:[KMGTkmgt][Bb]*)?)?$").expect("a pattern"));
    AMOUNT.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_slurm() {
        assert!(["200G", "65536", "1t", "200GB", ""].into_iter().all(is_amount));
        let wrong = ["lots", "G", "0G", "-1G", "1.5T", "200 G", "200Gi"];
        assert!(!wrong.into_iter().any(is_amount));
    }
}
