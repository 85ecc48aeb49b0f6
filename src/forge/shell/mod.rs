//! Workflows of the job type `shell`.

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[];
