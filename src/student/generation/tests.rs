//! Decoding on a small random network with a small vocabulary of its own.

use std::num::NonZeroUsize;

use candle_core::Device;

use super::*;
use crate::base::SeedTree;
use crate::student::config::NetworkConfig;
use crate::student::network::{BaseWeights, Network};
use crate::student::{ChatCodec, ChatTemplate, Student, StudentTokenizer, VocabularySize, weights};
use crate::trajectory::{Message, Role};

/// A student of 60 thousand numbers. Its weights are large, so that what it says depends on all that was said before.
pub(crate) fn student(seed: u64) -> Student {
    let text = "Look at the file with `ls -l` and `cat notes.txt`, then write the answer to answer.txt.\n".repeat(3);
    let tokenizer = StudentTokenizer::train([text.as_str()], VocabularySize::new(512).unwrap()).unwrap();
    let codec = ChatCodec::new(tokenizer, ChatTemplate::nano().unwrap()).unwrap();
    let mut config = NetworkConfig::nano(520, codec.end_of_turn()).unwrap();
    (config.hidden, config.intermediate, config.layers, config.heads, config.kv_heads, config.head_dim) = (32, 48, 2, 4, 2, 8);
    config.max_positions = 400;
    let mut weights = weights::random(&config, &SeedTree::new(seed), &Device::Cpu).unwrap();
    for (name, tensor) in &mut weights.tensors {
        if !name.contains("norm") {
            *tensor = tensor.affine(15.0, 0.0).unwrap();
        }
    }
    let network = Network::new(config, weights.tensors, BaseWeights::Frozen).unwrap();
    Student::new(network, codec, GenerationConfig::default()).unwrap()
}

fn limits(rows: usize, chunk: usize) -> DecodingLimits {
    let number = |number| NonZeroUsize::new(number).unwrap();
    DecodingLimits { rows: number(rows), chunk: number(chunk), ..DecodingLimits::default() }
}

fn prompt(student: &Student, text: &str) -> Vec<u32> {
    student.codec.prompt(&[Message::text(Role::User, text)], &[]).unwrap().ids
}

fn request(prompt: Vec<u32>, most_tokens: usize, luck: u64) -> GenerationRequest {
    GenerationRequest { prompt, sampling: Sampling::new(1.0, 0.95).unwrap(), stops: Vec::new(), most_tokens, draws: SeedTree::new(luck) }
}

/// The reply to a request of its own.
fn alone(student: &Student, request: GenerationRequest) -> Generated {
    Decoder::new(student, limits(1, 512)).run([request]).unwrap().remove(0)
}

/// What is drawn, without how it was computed. Log-probabilities may differ by rounding.
fn assert_same(a: &Generated, b: &Generated) {
    assert_eq!((&a.tokens, &a.text, a.finish), (&b.tokens, &b.text, b.finish));
    let far = a.logprobs.iter().zip(&b.logprobs).find(|(a, b)| (*a - *b).abs() > 1e-3);
    assert_eq!(far, None);
}

#[test]
fn many_at_a_time_say_what_each_says_alone() {
    let student = student(1);
    let texts = ["ls", "Look at the file.", "ls -l and then write the answer, then look again at notes.txt", "", "ls", "answer.txt"];
    let requests: Vec<GenerationRequest> =
        texts.iter().zip(0_u64..).map(|(text, luck)| request(prompt(&student, text), 10 + 7 * luck as usize, luck)).collect();
    let one_by_one: Vec<Generated> = requests.iter().map(|request| alone(&student, request.clone())).collect();
    for (rows, chunk) in [(4, 5), (6, 512), (2, 1)] {
        let together = Decoder::new(&student, limits(rows, chunk)).run(requests.clone()).unwrap();
        for (a, b) in together.iter().zip(&one_by_one) {
            assert_same(a, b);
        }
    }
    // The same luck after other prompts gives other replies: a row that were mixed up would be seen.
    let other = alone(&student, request(prompt(&student, "lt"), 10, 0));
    assert_ne!(other.tokens, one_by_one[0].tokens);
    assert!(one_by_one.iter().any(|generated| generated.tokens.len() >= 20), "{one_by_one:?}");
}

#[test]
fn log_probabilities_are_those_of_the_whole_text() {
    let student = student(2);
    let generated = alone(&student, request(prompt(&student, "ls"), 12, 3));
    assert_eq!(generated.logprobs.len(), generated.tokens.len());
    for (place, (token, logprob)) in generated.tokens.iter().zip(&generated.logprobs).enumerate() {
        let before: Vec<u32> = generated.prompt.iter().chain(&generated.tokens[..place]).copied().collect();
        let logits = student.network.extend(&mut [student.network.new_row()], &[&before]).unwrap().remove(0);
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let expected = f64::from(logits[*token as usize]) - sum.ln();
        assert!((logprob - expected).abs() < 1e-3, "{place}: {logprob} {expected}");
    }
}

#[test]
fn a_group_reads_its_prompt_once() {
    let student = student(3);
    let ids = prompt(&student, "Look at the file with ls and write the answer to answer.txt, then look again.");
    let group: Vec<GenerationRequest> = (0..5).map(|luck| request(ids.clone(), 8, luck)).collect();
    let together = Decoder::new(&student, limits(5, 16)).run(group.clone()).unwrap();
    let reused: Vec<usize> = together.iter().map(|generated| generated.reused).collect();
    // All but the last token, which the reply follows.
    assert_eq!(reused, [0, ids.len() - 1, ids.len() - 1, ids.len() - 1, ids.len() - 1]);
    for (generated, request) in together.iter().zip(group) {
        assert_same(generated, &alone(&student, request));
    }
    assert!(together.iter().any(|generated| generated.tokens != together[0].tokens));
}

#[test]
fn the_next_step_goes_on_where_the_last_one_ended() {
    let student = student(4);
    let first = request(prompt(&student, "ls"), 20, 1);
    let mut decoder = Decoder::new(&student, limits(2, 64));
    let reply = decoder.run([first.clone()]).unwrap().remove(0);
    let mut ids = reply.prompt.clone();
    ids.extend(&reply.tokens);
    let known = ids.len() - 1;
    ids.extend(prompt(&student, "answer.txt"));
    let next = request(ids, 20, 2);
    let with = decoder.run([next.clone()]).unwrap().remove(0);
    assert_eq!(with.reused, known);
    let without = alone(&student, next.clone());
    assert_eq!(without.reused, 0);
    assert_same(&with, &without);
    // A request that leaves the common path goes on from there, and the longer row stays for others.
    let mut fork = next.prompt[..30].to_vec();
    fork.extend(prompt(&student, "ls -l"));
    let forked = decoder.run([request(fork.clone(), 20, 3)]).unwrap().remove(0);
    assert!(forked.reused >= 30, "{}", forked.reused);
    assert_same(&forked, &alone(&student, request(fork, 20, 3)));
    assert!(decoder.run([next.clone()]).unwrap()[0].reused > 30);

    // In a memory that holds no more than the request itself nothing is kept beside it.
    let bytes = 2 * 2 * 2 * 8 * 4;
    let mut poor = Decoder::new(&student, DecodingLimits { memory: bytes * (next.prompt.len() + 20), ..limits(2, 64) });
    poor.run([first]).unwrap();
    let poorly = poor.run([request(prompt(&student, "other"), 250, 9), next]).unwrap();
    assert_same(&poorly[1], &with);
}

#[test]
fn replies_end_where_they_should() {
    let mut student = student(5);
    let ids = prompt(&student, "ls");
    let free = alone(&student, request(ids.clone(), 30, 4));
    assert!(free.tokens.len() > 6, "{free:?}");

    let short = alone(&student, request(ids.clone(), 3, 4));
    assert_eq!((short.finish, short.tokens.as_slice()), (Finish::Length, &free.tokens[..3]));

    let narrow = DecodingLimits { context: ids.len() + 4, ..limits(1, 512) };
    let narrow_reply = Decoder::new(&student, narrow).run([request(ids.clone(), 30, 4)]).unwrap().remove(0);
    assert_eq!((narrow_reply.finish, narrow_reply.tokens.len()), (Finish::Length, 4));
    let too_narrow = DecodingLimits { context: ids.len(), ..limits(1, 512) };
    let refused = Decoder::new(&student, too_narrow).run([request(ids.clone(), 30, 4)]);
    assert!(matches!(refused, Err(GenerationError::Context { context, .. }) if context == ids.len()));

    // A stop in the middle of the text, wherever token borders fall.
    let middle = free.text.char_indices().map(|(at, _)| at).filter(|at| *at >= 2).nth(1).unwrap();
    let stop: String = free.text[middle..].chars().take(3).collect();
    let first = free.text.find(&stop).unwrap();
    let stopped = alone(&student, GenerationRequest { stops: vec![stop], ..request(ids.clone(), 30, 4) });
    assert_eq!((stopped.finish, stopped.text.as_str()), (Finish::StopText, &free.text[..first]));
    assert_eq!(stopped.tokens, free.tokens[..stopped.tokens.len()]);

    student.generation.eos = vec![free.tokens[4]];
    let ended = alone(&student, request(ids, 30, 4));
    let first = free.tokens.iter().position(|token| *token == free.tokens[4]).unwrap();
    assert_eq!((ended.finish, ended.tokens.as_slice()), (Finish::EndOfTurn, &free.tokens[..=first]));
}

#[test]
fn no_row_beyond_the_vocabulary_is_drawn() {
    let student = student(6);
    let flat = GenerationRequest { sampling: Sampling::new(1000.0, 1.0).unwrap(), ..request(prompt(&student, "ls"), 300, 1) };
    let generated = alone(&student, flat);
    assert!(generated.tokens.iter().all(|token| (*token as usize) < student.codec.tokenizer().vocabulary_size()));
    let wrong = Decoder::new(&student, limits(1, 8)).run([request(vec![5000], 3, 0)]);
    assert!(wrong.unwrap_err().to_string().contains("5000"));
    assert!(matches!(Decoder::new(&student, limits(1, 8)).run([request(Vec::new(), 3, 0)]), Err(GenerationError::EmptyPrompt)));
}

#[test]
fn what_is_cancelled_leaves_the_others_alone() {
    let student = student(7);
    let mut decoder = Decoder::new(&student, limits(2, 8));
    let kept = request(prompt(&student, "answer.txt"), 15, 1);
    let dropped = [0, 1].map(|_| decoder.submit(request(prompt(&student, "ls"), 300, 0)).unwrap());
    let ticket = decoder.submit(kept.clone()).unwrap();
    for _ in 0..4 {
        assert!(decoder.step().is_empty());
    }
    decoder.cancel(dropped[0]);
    decoder.cancel(dropped[1]);
    let mut settled = Vec::new();
    while !decoder.is_idle() {
        settled.extend(decoder.step());
    }
    let [(settled_ticket, Ok(generated))] = settled.as_slice() else { panic!("{settled:?}") };
    assert_eq!(*settled_ticket, ticket);
    assert_same(generated, &alone(&student, kept));
}
