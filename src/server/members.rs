//! The commands that run beside a server, on this node and on others of the allocation: which nodes there are, and which command of the
//! group ended first. Each has a guard of its own here; what it starts elsewhere is its own to end when it is ended, as `srun` does.

use super::guard::Exit;
use super::guarded::{Guarded, Lost, Order};
use crate::cause::Failure;
use crate::shell::shell_line;
use futures_util::future::{join_all, select_all};
use std::process::{Command, Stdio};

/// The commands of one server beside the one that answers.
#[derive(Debug)]
pub(super) struct MemberGroup {
    members: Vec<(String, Guarded)>,
}

impl MemberGroup {
    /// Starts them all; what was started is ended if one cannot be.
    pub(super) fn start<'a>(
        commands: &[Vec<String>],
        order: impl Fn() -> std::io::Result<Order<'a>>,
    ) -> Result<MemberGroup, Failure> {
        let mut members = Vec::new();
        for command in commands {
            let order = order().map_err(|error| Failure::new(crate::cause::Cause::SystemRefused, error.to_string()))?;
            let guarded = Guarded::start(Order { argv: command, ..order })?;
            members.push((shell_line(command), guarded));
        }
        Ok(MemberGroup { members })
    }

    /// Waits until one of them has ended, and says which and how; for ever if there is none.
    pub(super) async fn exited(&self) -> (&str, Result<Exit, Lost>) {
        if self.members.is_empty() {
            return std::future::pending().await;
        }
        let all = self
            .members
            .iter()
            .map(|(command, guarded)| Box::pin(async move { (command.as_str(), guarded.exited().await) }));
        select_all(all).await.0
    }

    /// Ends them all, each with its grace.
    pub(super) async fn stop(&mut self) {
        join_all(self.members.iter_mut().map(|(_, guarded)| guarded.stop())).await;
    }

    /// The same without grace.
    pub(super) async fn kill(&mut self) {
        join_all(self.members.iter_mut().map(|(_, guarded)| guarded.kill())).await;
    }
}

/// The nodes of the allocation, this one first; without one this machine alone.
pub fn nodes() -> Result<Vec<String>, String> {
    let own = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let here = || {
        let host =
            nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
        own("SLURMD_NODENAME").unwrap_or(host)
    };
    let Some(list) = own("SLURM_JOB_NODELIST") else {
        return Ok(vec![here()]);
    };
    let output = Command::new("scontrol")
        .args(["show", "hostnames", &list])
        .stdin(Stdio::null())
        .output();
    let output =
        output.map_err(|error| format!("scontrol, which lists the nodes of {list}, cannot be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("scontrol cannot list the nodes of {list}: {said}"));
    }
    let mut nodes: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    let here = here();
    nodes.sort_by_key(|node| *node != here);
    Ok(nodes)
}
