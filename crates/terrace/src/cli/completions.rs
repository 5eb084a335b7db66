//! `terrace completions`.

use super::failure::CommandError;
use clap::Args;
use clap_complete::Shell;

/// Print a completion script for a shell.
///
/// For bash: terrace completions bash > /etc/bash_completion.d/terrace
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print the script for.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(self, mut command: clap::Command) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "terrace", &mut script);
        super::ui::print_line(&String::from_utf8_lossy(&script))
    }
}
