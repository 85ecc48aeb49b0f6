//! `student plan`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind};
use super::figures::table;
use super::output::Output;
use crate::student::config::NetworkConfig;
use crate::student::memory::{Numbers, TrainingMemory, TrainingSetup, generation_memory, longest_row, parameters, training_memory};
use crate::student::network::{AdapterConfig, Checkpointing, Kernels, Projection, Scaling};

/// What is taken of the memory of a device before the first tensor: its context, and pieces too small to use.
const DEVICE_RESERVE: u64 = 1 << 30;
/// The row length that the table's sums are of.
const LENGTH: usize = 2048;

#[derive(Debug, Args)]
#[command(
    after_help = "The sums follow what the program allocates, tensor by tensor; those for a GPU are in bfloat16 and less 1 GiB for its \
context. They were not held against real processes: leave a tenth free.\n\n\
JSON keys: parameters, memory (bytes), device (gpu or cpu), generation {fits, bytes} at 8192 tokens, training [{kind, recomputed, weights, \
gradients, optimizer, pass, step, peak, length, longest_row}]; bytes are of rows of `length` tokens, longest_row is null where no row fits."
)]
pub(super) struct PlanArgs {
    /// A folder in Hugging Face's layout, or a config.json; weights are not read.
    #[arg(value_name = "DIR")]
    student: PathBuf,
    /// Plan for a GPU with so much memory, such as 24GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    gpu_memory: Option<u64>,
    /// Plan for the CPU with so much memory; what is free here now by default.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "gpu_memory")]
    memory: Option<u64>,
    /// Rank of the low-rank adapters.
    #[arg(long, value_name = "R", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    rank: u16,
    /// Rows that go through the network at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    rows: u16,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// A way to train, and what it takes.
struct Way {
    kind: &'static str,
    recomputed: bool,
    memory: TrainingMemory,
    longest: Option<usize>,
}

/// Says what fits.
pub(super) fn plan(args: &PlanArgs, output: &Output) -> Result<(), Failure> {
    let config = read(&args.student)?;
    let (kernels, numbers) = match args.gpu_memory {
        Some(_) => (Kernels::Composed, Numbers::Half),
        None => (Kernels::Fused, Numbers::Single),
    };
    let memory = match args.gpu_memory.or(args.memory) {
        Some(memory) => memory,
        None => free_memory().ok_or_else(|| {
            Failure::new(FailureKind::Environment, "/proc/meminfo does not say what is free").hint("say it with --memory 16GiB")
        })?,
    };
    let budget = if args.gpu_memory.is_some() { memory.saturating_sub(DEVICE_RESERVE) } else { memory };
    let length = LENGTH.min(config.max_positions);
    let adapter = AdapterConfig {
        rank: args.rank.into(),
        alpha: f64::from(args.rank) * 2.0,
        dropout: 0.0,
        scaling: Scaling::Standard,
        targets: Projection::ALL.into_iter().collect(),
    };
    let mut ways = Vec::new();
    for (kind, adapters) in [("all weights", None), ("adapters", Some(adapter))] {
        for checkpointing in [Checkpointing::Off, Checkpointing::EveryLayer] {
            let setup = TrainingSetup { kernels, numbers, adapters: adapters.clone(), checkpointing, rows: args.rows.into() };
            ways.push(Way {
                kind,
                recomputed: checkpointing == Checkpointing::EveryLayer,
                memory: training_memory(&config, &setup, length),
                longest: longest_row(&config, &setup, budget),
            });
        }
    }
    let generation = generation_memory(&config, numbers, 8192);
    let count = parameters(&config);
    if args.json {
        return output.json(&json!({
            "parameters": count, "memory": memory, "device": if args.gpu_memory.is_some() { "gpu" } else { "cpu" },
            "generation": {"fits": generation <= budget, "bytes": generation},
            "training": ways.iter().map(|way| way.json(length)).collect::<Vec<_>>(),
        }));
    }
    let place = if args.gpu_memory.is_some() { "a GPU, bfloat16" } else { "the CPU, single precision" };
    let mut text = format!("{} weights; {} of memory on {place}\n", count, gib(memory));
    let verdict = if generation <= budget { "fits" } else { "does not fit" };
    text.push_str(&format!("generation: {} with 8192 kept tokens, {verdict}\n", gib(generation)));
    text.push_str(&format!("training, rows of {length} tokens, {} at a time, adapters of rank {}:\n", args.rows, args.rank));
    let heads = ["trains", "layers", "weights", "gradients", "optimiser", "pass", "peak", "", "longest row"];
    text.push_str(&table(&heads, 2, ways.iter().map(|way| way.cells(budget))));
    output.data(&text)
}

impl Way {
    fn cells(&self, budget: u64) -> Vec<String> {
        let TrainingMemory { weights, gradients, optimizer, pass, step } = self.memory;
        vec![
            self.kind.to_owned(),
            if self.recomputed { "recomputed" } else { "kept" }.to_owned(),
            gib(weights),
            gib(gradients),
            gib(optimizer),
            gib(pass.max(step)),
            gib(self.memory.peak()),
            if self.memory.peak() <= budget { "fits" } else { "too much" }.to_owned(),
            self.longest.map_or_else(|| "none".to_owned(), |tokens| tokens.to_string()),
        ]
    }

    fn json(&self, length: usize) -> Value {
        let TrainingMemory { weights, gradients, optimizer, pass, step } = self.memory;
        json!({
            "kind": self.kind, "recomputed": self.recomputed, "weights": weights, "gradients": gradients, "optimizer": optimizer,
            "pass": pass, "step": step, "peak": self.memory.peak(), "length": length, "longest_row": self.longest,
        })
    }
}

/// Refuses what would not fit the memory of this machine: `need` bytes for `what`.
///
/// Better said than found out: the kernel ends a program that takes too much without a word.
pub(super) fn refuse_too_large(path: &Path, what: &str, need: u64) -> Result<(), Failure> {
    match free_memory() {
        Some(free) if need > free => {
            let message = format!("{what} {} takes {}, and {} are free", path.display(), gib(need), gib(free));
            Err(Failure::new(FailureKind::Environment, message)
                .hint(format!("`harness-evo student plan {}` says what fits", path.display())))
        }
        _ => Ok(()),
    }
}

/// The shape of the student in the folder `path`; none for other students, whose own reader says what is wrong with them.
pub(super) fn shape(path: &Path) -> Option<NetworkConfig> {
    read(path).ok().filter(|_| path.is_dir())
}

/// The shape of the student at `path`: a folder or its config.json.
pub(super) fn read(path: &Path) -> Result<NetworkConfig, Failure> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let failed = |why: &dyn std::fmt::Display| Failure::new(FailureKind::Input, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(&file)
        .map_err(|error| failed(&error).hint("name a folder in Hugging Face's layout, or its config.json"))?;
    NetworkConfig::from_json(&text).map_err(|error| failed(&error))
}

/// Memory that programs can have now.
pub(super) fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// `bytes` for people.
pub(super) fn gib(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib < 0.1 { format!("{:.1} MiB", gib * 1024.0) } else { format!("{gib:.1} GiB") }
}

/// A size such as `24GiB`, `512MiB` or `16GB`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "GiB" | "G" => 1 << 30,
        "MiB" | "M" => 1 << 20,
        "GB" => 1_000_000_000,
        "MB" => 1_000_000,
        _ => return Err("a size is a number and GiB, MiB, GB or MB, such as 24GiB".to_owned()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("`{digits}` is not a number"))?;
    if !(number > 0.0 && number < 1e6) {
        return Err(format!("{text} is no size of a memory"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "far below 2^53")]
    Ok((number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("24GiB"), Ok(24 << 30));
        assert_eq!(size("1.5G"), Ok(3 << 29));
        assert_eq!(size("16GB"), Ok(16_000_000_000));
        for wrong in ["24", "GiB", "-1GiB", "0GiB", "24 bananas", "1e9GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
