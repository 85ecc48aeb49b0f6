//! Workflows of the job type `data`.

use super::Workflow;

/// The workflows.
pub(super) const WORKFLOWS: &[Workflow] = &[];
