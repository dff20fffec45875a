//! Keeps the terminal from writing into the lines that are drawn.

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io::stdin;

/// Hides `^C`, which would break the lines that are drawn. Holds the terminal's former settings, and restores them when it is dropped.
pub struct QuietControls(Termios);

impl QuietControls {
    /// Hides `^C`. Returns `None` in the background, where changing the settings would stop this process.
    pub fn begin() -> Option<QuietControls> {
        QuietControls::is_in_foreground().then_some(())?;
        let before = tcgetattr(stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHOCTL);
        tcsetattr(stdin(), SetArg::TCSANOW, &quiet).ok()?;
        Some(QuietControls(before))
    }

    fn is_in_foreground() -> bool {
        tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
    }
}

impl Drop for QuietControls {
    fn drop(&mut self) {
        if QuietControls::is_in_foreground() {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.0);
        }
    }
}
