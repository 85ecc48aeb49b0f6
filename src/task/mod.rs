//! Tasks as data: instruction, initial state, limits, check and reference solution.

mod act;
mod check;
mod probe;
mod spec;
mod split;
mod toml_file;
mod written;

pub use act::{Act, ActCall, ActRole, Variant};
pub use check::{Check, CheckItem, ItemResult, Probe, Stake, Verdict};
pub use probe::Finding;
pub(crate) use probe::shorten;
pub use spec::{JobType, NameError, SkillName, Task, TaskBody, TaskError, TaskId, TaskLimits};
pub use split::{SealedTask, SearchTask, Split, SplitTasks, ValidateTask};
pub use toml_file::{TaskFileError, parse_task, read_task_file, read_task_folder, task_toml};
