//! What is recorded of a server config: all that tells it from others, without its secrets.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vsweep_plan::matrix::ServerConfig;
use vsweep_plan::plan::{Params, Secrets};

/// What a server config is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerDeclared {
    /// Short text for people.
    pub name: String,
    /// Command line, secrets redacted; empty when attached.
    pub argv: Vec<String>,
    /// Environment of the plan, secrets redacted.
    pub env: BTreeMap<String, String>,
    /// Every parameter.
    pub params: Params,
    /// Name of its combination, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combo: Option<String>,
}

impl ServerDeclared {
    /// What is recorded of a config: all but its secrets.
    pub fn of(server: &ServerConfig, secrets: &Secrets) -> ServerDeclared {
        ServerDeclared {
            name: server.name.clone(),
            argv: secrets.redact_argv(&server.argv),
            env: secrets.redact_env(&server.env),
            params: secrets.redact_params(&server.params),
            combo: server.combo.clone(),
        }
    }
}
