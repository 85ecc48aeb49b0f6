//! Splits, and types that keep them apart: selection and operators take [`SearchTask`]s, so a sealed task cannot reach them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Task, TaskId};

/// Who may see a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// The search may see it.
    Search,
    /// Confirms elites.
    Validate,
    /// Read once per report; never by selection, never by a model.
    Sealed,
}

impl Split {
    /// The split of the task `id`, by its last byte modulo 20: 0 to 11 search, 12 to 16 validate, 17 to 19 sealed.
    #[must_use]
    pub fn of(id: TaskId) -> Self {
        match id.as_bytes()[15] % 20 {
            0..=11 => Self::Search,
            12..=16 => Self::Validate,
            _ => Self::Sealed,
        }
    }

    /// The name, as in SQL and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Validate => "validate",
            Self::Sealed => "sealed",
        }
    }
}

macro_rules! define_split_task {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name(Arc<Task>);

        impl $name {
            /// The task.
            #[must_use]
            pub fn task(&self) -> &Arc<Task> {
                &self.0
            }
        }
    };
}

define_split_task!(
    /// A task the search may see.
    SearchTask
);
define_split_task!(
    /// A task that confirms elites.
    ValidateTask
);
define_split_task!(
    /// A task that only the final report may read.
    SealedTask
);

/// Tasks by split, each in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct SplitTasks {
    /// For the search.
    pub search: Vec<SearchTask>,
    /// For confirmation.
    pub validate: Vec<ValidateTask>,
    /// For the report.
    pub sealed: Vec<SealedTask>,
}

impl SplitTasks {
    /// Sorts `tasks` into their splits.
    #[must_use]
    pub fn new(mut tasks: Vec<Arc<Task>>) -> Self {
        tasks.sort_by_key(|task| task.id());
        tasks.dedup_by_key(|task| task.id());
        let mut split = Self::default();
        for task in tasks {
            match task.split() {
                Split::Search => split.search.push(SearchTask(task)),
                Split::Validate => split.validate.push(ValidateTask(task)),
                Split::Sealed => split.sealed.push(SealedTask(task)),
            }
        }
        split
    }
}
