//! All concurrency: the pool, memoised episodes, paired comparison, fitness statistics.

mod episode_log;
mod evaluator;
mod player;
mod schedule;
mod score;
mod statistics;

pub use episode_log::{EpisodeKey, EpisodeLog, LogError};
pub use evaluator::{Attempt, Attempts, Batch, EvaluationError, Evaluator, worst_episode};
pub use player::{EpisodePlayer, ModelPlayer};
pub use schedule::{Pairing, Schedule};
pub use score::EpisodeScore;
pub use statistics::{Interval, paired_difference, wilson};
