//! The members of a server: processes in addition to the process that answers requests, on the same node or on other nodes.

use crate::written::Words;
use crate::{Node, Reader, table};

/// Placeholder for the first node, where vsweep and the command that answers run.
pub const HEAD: &str = "{head}";
/// Placeholder for the node of a member.
pub const NODE: &str = "{node}";
/// Placeholder for the number of a member's node, from 1.
pub const RANK: &str = "{rank}";
/// Placeholder for the server's whole command line; must be a word of its own.
pub const COMMAND: &str = "{command}";

table! {
    /// Processes that are started, watched and stopped with a server.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Members("Members", "serve.") {
        /// Nodes of the allocation that each server uses, including this one. Default: 1. See docs/cluster.md.
        pub nodes: u32 = whole(1..=1024).or(1u32),
        /// Command lines that are started, watched and stopped with the server: if one ends, all are stopped. A command with `{node}`
        /// or `{rank}` is started once for each further node, with the node's name and its number from 1. `{command}`, as a word of its
        /// own, is the server's whole command line, and `{head}`, in `command` and `env` too, the name of the first node.
        pub commands as "members": Vec<Vec<String>> = by::<Vec<Words>, _>(commands),
    }
    then Members::check
}

fn commands(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Vec<String>>> {
    let remedy = "write a list of command lines, such as [\"srun -w {node} {command} --headless --node-rank {rank}\"]";
    reader.each(node, what, remedy, |reader, node| {
        let words = reader.words(node, what)?;
        if words.iter().any(|word| word.contains(COMMAND) && word != COMMAND) {
            let message = format!("`{COMMAND}` is several words, so it must be a word of its own");
            reader.object(node.span, message, "put spaces around it");
        }
        Some(words)
    })
}

/// Returns true if a command line is started once for each node after the first.
pub fn is_of_node(command: &[String]) -> bool {
    command.iter().any(|word| word.contains(NODE) || word.contains(RANK))
}

impl Members {
    fn check(&mut self, reader: &mut Reader<'_>, serve: &Node) {
        let of_node = self.commands.iter().position(|words| is_of_node(words));
        match (serve.child("nodes"), of_node) {
            (Some(nodes), None) if self.nodes > 1 => {
                let message = "nothing says what runs on the further nodes";
                let remedy = "add members = [\"srun --nodes=1 --ntasks=1 -w {node} {command} --headless --node-rank {rank}\"], or what starts \
                              your server there";
                reader.object(nodes.span, message, remedy);
            }
            (_, Some(position)) if self.nodes < 2 => {
                let members = serve.child("members");
                let place = members.and_then(|members| members.child(&position.to_string()));
                let message = "a member of another node, but the server has one node alone";
                let remedy = "say how many nodes it takes: nodes = 2";
                reader.object(place.unwrap_or(serve).span, message, remedy);
            }
            _ => {}
        }
    }

    /// Returns the command lines of all members of a server whose own command line is `server`. The first of `nodes`, which must not be
    /// empty, is the head. Surplus nodes are ignored.
    pub fn resolve(&self, server: &[String], nodes: &[String]) -> Vec<Vec<String>> {
        let fill = |command: &[String], rank: u32, node: &str| -> Vec<String> {
            let rank = rank.to_string();
            let word = |word: &String| match word.as_str() {
                COMMAND => server.to_vec(),
                word => vec![word.replace(NODE, node).replace(RANK, &rank).replace(HEAD, &nodes[0])],
            };
            command.iter().flat_map(word).collect()
        };
        let further = (1..self.nodes).zip(nodes.iter().skip(1));
        let filled = self.commands.iter().flat_map(|command| match is_of_node(command) {
            false => vec![fill(command, 0, &nodes[0])],
            true => further.clone().map(|(rank, node)| fill(command, rank, node)).collect(),
        });
        filled.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_node_is_run_on_each_further_one() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let members = Members {
            nodes: 3,
            commands: vec![
                words("ray start --head --block"),
                words("srun -w {node} {command} --node-rank {rank} --at={head}:1"),
            ],
        };
        let server = words("vllm serve m");
        let nodes = words("a b c d");
        let resolved: Vec<String> = members
            .resolve(&server, &nodes)
            .iter()
            .map(|line| line.join(" "))
            .collect();
        let expected = [
            "ray start --head --block",
            "srun -w b vllm serve m --node-rank 1 --at=a:1",
            "srun -w c vllm serve m --node-rank 2 --at=a:1",
        ];
        assert_eq!(resolved, expected);
        assert!(Members::default().resolve(&server, &nodes).is_empty());
    }
}
