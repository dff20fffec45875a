//! The nodes on which the commands of one server may run. What such a command starts elsewhere is its own to end when it is ended, as
//! `srun` does.

use std::process::{Command, Stdio};

/// The name of this machine.
pub fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// The nodes of the allocation, this one first; without one this machine alone.
pub fn nodes() -> Result<Vec<String>, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let here = || variable("SLURMD_NODENAME").unwrap_or_else(host);
    let Some(list) = variable("SLURM_JOB_NODELIST") else {
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
