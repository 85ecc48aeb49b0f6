//! All concurrency: the pool, memoised episodes, paired comparison, fitness statistics.

mod episode_log;
mod score;

pub use episode_log::{EpisodeKey, EpisodeLog, LogError};
pub use score::EpisodeScore;
