//! `student`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Failure, FailureKind};
use super::models;
use super::output::Output;
use super::student_files::{MergeArgs, ShowArgs, merge, show};
use super::student_plan::{PlanArgs, plan};
use crate::base::SeedTree;
use crate::student::generation::{Decoder, DecodingLimits, Finish, GenerationRequest};
use crate::student::{Student, Trust};
use crate::trajectory::{Message, Role};

/// Look at a student.
#[derive(Debug, Args)]
pub(super) struct StudentArgs {
    #[command(subcommand)]
    command: StudentCommand,
}

#[derive(Debug, Subcommand)]
enum StudentCommand {
    /// Let a student reply to a prompt.
    Generate(GenerateArgs),
    /// Say what a student is: shape, vocabulary, hashes.
    Show(ShowArgs),
    /// Add a low-rank adapter to the weights it was trained beside.
    Merge(MergeArgs),
    /// Say what of training and generation fits a memory, from the shape alone.
    Plan(PlanArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "JSON keys: text, finish (end_of_turn, stop_text or length), prompt_token_ids, completion_token_ids, logprobs (natural, of \
each token of the reply under the network's own distribution), seconds."
)]
struct GenerateArgs {
    /// A folder in Hugging Face's layout, or a .gguf file.
    #[arg(value_name = "DIR")]
    student: PathBuf,
    /// What the student is told.
    #[arg(value_name = "PROMPT")]
    prompt: String,
    /// A system message before it.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Go on from the prompt as it is, without the chat template; its special tokens are tokens.
    #[arg(long)]
    raw: bool,
    /// Most tokens of the reply.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// 0 takes the most probable token every time.
    #[arg(long, value_name = "T", default_value_t = 0.7)]
    temperature: f64,
    /// Draw from the smallest set of tokens that holds this share of the probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// A text that ends the reply; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Seed of the luck.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Looks at a student.
pub(super) fn student(args: &StudentArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        StudentCommand::Generate(args) => generate(args, output),
        StudentCommand::Show(args) => show(args, output),
        StudentCommand::Merge(args) => merge(args, output),
        StudentCommand::Plan(args) => plan(args, output),
    }
}

fn generate(args: &GenerateArgs, output: &Output) -> Result<(), Failure> {
    let input = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Input, error);
    let student = models::load_student(&args.student)?;
    let request = GenerationRequest {
        prompt: prompt(args, &student)?,
        sampling: student.generation.sampling(args.temperature, args.top_p).map_err(|error| input(&error))?,
        stops: args.stop.clone(),
        most_tokens: usize::try_from(args.tokens).unwrap_or(usize::MAX),
        draws: SeedTree::new(args.seed).child("generate"),
    };
    let began = Instant::now();
    let generated = Decoder::new(&student, DecodingLimits::default()).run([request]).map_err(|error| input(&error))?;
    let Some(generated) = generated.into_iter().next() else {
        return Err(Failure::new(FailureKind::Other, "the decoder gave no reply"));
    };
    let seconds = began.elapsed().as_secs_f64();
    output.note(&format!("{} tokens read, {} written, {seconds:.1} s", generated.prompt.len(), generated.tokens.len()));
    if !args.json {
        return output.data(&generated.text);
    }
    let finish = match generated.finish {
        Finish::EndOfTurn => "end_of_turn",
        Finish::StopText => "stop_text",
        Finish::Length => "length",
    };
    output.json(&json!({
        "text": generated.text, "finish": finish, "prompt_token_ids": generated.prompt, "completion_token_ids": generated.tokens,
        "logprobs": generated.logprobs, "seconds": seconds,
    }))
}

fn prompt(args: &GenerateArgs, student: &Student) -> Result<Vec<u32>, Failure> {
    if args.raw {
        let ids = student.codec.tokenizer().encode(&args.prompt, Trust::Template);
        return ids.map_err(|error| Failure::from_error(FailureKind::Input, &error));
    }
    let mut messages: Vec<Message> = args.system.iter().map(|system| Message::text(Role::System, system)).collect();
    messages.push(Message::text(Role::User, &args.prompt));
    let encoded = student.codec.prompt(&messages, &[]).map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    Ok(encoded.ids)
}
