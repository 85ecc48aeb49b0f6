//! Ground that knows nothing of the domain: ids, the seed tree, the clock, budgets, canonical JSON, files that are whole.

mod budget;
mod canonical;
mod clock;
mod ids;
mod seed;
mod snapshot;
mod toml_place;
mod whole_file;

pub use budget::{Amount, BudgetError, Ledger, Resource};
pub use canonical::{canonical_bytes, content_hash};
pub use clock::{Clock, FixedClock, SystemClock, Timestamp};
pub use ids::IdError;
pub(crate) use ids::define_id;
pub use seed::SeedTree;
pub use snapshot::{Entry, Snapshot, SnapshotError};
pub use toml_place::TomlPlace;
pub use whole_file::write_whole;
