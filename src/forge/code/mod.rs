//! Workflows of the job type `code`.

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[];
