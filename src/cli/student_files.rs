//! `student show` and `student merge`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::failure::{Failure, FailureKind};
use super::models;
use super::output::Output;
use crate::student::lora::load_adapter;

#[derive(Debug, Args)]
#[command(
    after_help = "JSON keys: family, layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary, tied, max_positions, parameters, \
tokenizer {tokens, hash, end_of_turn}, template_hash, weights_hash."
)]
pub(super) struct ShowArgs {
    /// A folder in Hugging Face's layout, or a .gguf file.
    #[arg(value_name = "DIR")]
    student: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// The student the adapter was trained on.
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// A folder in PEFT's layout.
    #[arg(value_name = "ADAPTER")]
    adapter: PathBuf,
    /// The folder to write; it must not be there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Says what a student is.
pub(super) fn show(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let student = models::load_student(&args.student)?;
    let config = student.network.config();
    let parameters: usize = student.network.parameters().iter().map(|weight| weight.tensor().elem_count()).sum();
    let weights = student.weights_hash().map_err(|error| Failure::from_error(FailureKind::Other, &error))?.to_hex();
    let template = blake3::hash(student.codec.template().source().as_bytes()).to_hex();
    let tokenizer = student.codec.tokenizer();
    let end = student.codec.end_of_turn();
    if args.json {
        return output.json(&json!({
            "family": config.family.model_type(), "layers": config.layers, "hidden": config.hidden, "intermediate": config.intermediate,
            "heads": config.heads, "kv_heads": config.kv_heads, "head_dim": config.head_dim, "vocabulary": config.vocabulary,
            "tied": config.tied, "max_positions": config.max_positions, "parameters": parameters,
            "tokenizer": {"tokens": tokenizer.vocabulary_size(), "hash": tokenizer.hash().to_string(), "end_of_turn": end},
            "template_hash": template.as_str(), "weights_hash": weights.as_str(),
        }));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<12} {value}\n"));
    line(
        "network",
        format!("{}, {} layers, {} wide, {} inside", config.family.model_type(), config.layers, config.hidden, config.intermediate),
    );
    line("heads", format!("{} of {}, {} for keys and values", config.heads, config.head_dim, config.kv_heads));
    line("parameters", format!("{parameters}; {} MiB as f32, {} MiB as bf16", mib(parameters, 4), mib(parameters, 2)));
    line("context", format!("{} tokens", config.max_positions));
    line("vocabulary", format!("{} tokens, the network has {} rows{}", tokenizer.vocabulary_size(), config.vocabulary, tied(config.tied)));
    line("turn ends", format!("with `{}` ({end})", tokenizer.decode(&[end])));
    line("hashes", format!("weights {}, tokenizer {}, template {}", &weights[..16], &tokenizer.hash().to_hex()[..16], &template[..16]));
    output.data(&text)
}

const fn tied(tied: bool) -> &'static str {
    if tied { ", the same for reading and writing" } else { "" }
}

const fn mib(numbers: usize, bytes: usize) -> usize {
    (numbers * bytes).div_ceil(1 << 20)
}

/// Adds an adapter to the weights it was trained beside.
pub(super) fn merge(args: &MergeArgs, output: &Output) -> Result<(), Failure> {
    if args.out.exists() {
        let failure = Failure::new(FailureKind::Input, format!("{} is there already", args.out.display()));
        return Err(failure.hint("name another folder with --out"));
    }
    let mut student = models::load_student(&args.base)?;
    let adapter = load_adapter(&args.adapter).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let merged = student.network.with_adapter_weights(&adapter.config, adapter.factors);
    student.network = merged.map_err(|error| {
        Failure::from_error(FailureKind::Input, &error).hint("is the adapter of another model? `adapter_config.json` names its base")
    })?;
    student.save(&args.out).map_err(|error| Failure::from_error(FailureKind::Other, &error))?;
    output.note(&format!("merged into {}", args.out.display()));
    Ok(())
}
