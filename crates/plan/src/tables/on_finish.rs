//! The `[on_finish]` table: a command for the end of a sweep.

use crate::table;
use crate::written::Words;
use std::time::Duration;

table! {
    /// Runs a command when `vsweep run` has ended and all files are written: for a message, an upload or a tracker (docs/recipes.md). It
    /// changes no result and no exit code. It does not run if nothing was left to do.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OnFinish("OnFinishTable", "on_finish.") {
        /// The program and its arguments; `{dir}` is the directory of the results. Its environment has `VSWEEP_DIR`, `VSWEEP_ANSWER` (path of
        /// `answer.json`), `VSWEEP_EXIT_CODE` and `VSWEEP_ENDING`: `finished`, `stopped`, `interrupted`, `out_of_time`, `superseded` or
        /// `error`. Its output goes to `on_finish.log`. If it fails, that is a warning.
        pub command: Vec<String> = by::<Words, _>(|reader, node, what| reader.words(node, what))
            .required("[on_finish] names no program", "add command = [\"PROGRAM\", \"{dir}\"]"),
        /// Time limit; then it is ended with all that it started. Default: `1m`.
        pub timeout: Duration = key().or(Duration::from_secs(60)),
        /// Variables that it gets although their names announce a secret, such as `MLFLOW_TRACKING_TOKEN`.
        pub secrets: Vec<String>,
    }
}
