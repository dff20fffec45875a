//! A server that is several commands, on one node or on several: what runs beside the one that answers.

/// Stands for the first node, where vsweep and the command that answers run.
pub const HEAD: &str = "{head}";
/// Stands for the node of a member.
pub const NODE: &str = "{node}";
/// Stands for the number of that node, from 1.
pub const RANK: &str = "{rank}";
/// A word of its own, which stands for the server's whole command line.
pub const COMMAND: &str = "{command}";

/// What is started, watched and stopped with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Nodes that a server takes.
    pub nodes: u32,
    /// Command lines as typed.
    pub commands: Vec<Vec<String>>,
}

impl Default for Members {
    fn default() -> Members {
        Members {
            nodes: 1,
            commands: Vec::new(),
        }
    }
}

/// Whether a command line is one for each further node.
pub fn is_of_node(command: &[String]) -> bool {
    command.iter().any(|word| word.contains(NODE) || word.contains(RANK))
}

impl Members {
    /// Their command lines on these nodes, the first of which is the head, beside a server with this command line. Of more nodes than
    /// wanted the first ones count.
    pub fn resolve(&self, server: &[String], nodes: &[String]) -> Vec<Vec<String>> {
        let further = || (1..self.nodes).zip(nodes.iter().skip(1));
        let fill = |command: &[String], rank: &str, node: &str| -> Vec<String> {
            let word = |word: &String| match word.as_str() {
                COMMAND => server.to_vec(),
                word => vec![word.replace(NODE, node).replace(RANK, rank).replace(HEAD, &nodes[0])],
            };
            command.iter().flat_map(word).collect()
        };
        let of_command = |command: &Vec<String>| -> Vec<Vec<String>> {
            match is_of_node(command) {
                false => vec![fill(command, "0", &nodes[0])],
                true => further()
                    .map(|(rank, node)| fill(command, &rank.to_string(), node))
                    .collect(),
            }
        };
        self.commands.iter().flat_map(of_command).collect()
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
